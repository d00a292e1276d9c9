"""Array arithmetic that runs on the processor (numpy) or on a GPU (torch), and nothing else.

The files here import numpy, and torch where a GPU is asked for. Privacy-relevant transforms are
matrix products in float64: their rounding error has a bound that holds for any order of summation.

Array files in, array files out, and writing that is all or nothing.
"""
