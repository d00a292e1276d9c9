"""The public Python API and the command line's verbs: one module each, the only ones that put
rooms together.

A verb's module has ``COMMAND``, or ``COMMANDS`` by name where it has several: frozen dataclasses
whose fields are the flags and whose ``run`` returns an `Answer`.
"""
