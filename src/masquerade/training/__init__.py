"""Learn models privately: the parts of one equation, and one short file a method.

Every update is g = lambda * mean of public gradients
                  + (1/b) * Proj[sum of clipped private gradients + N(0, (z C)^2)],

with b the expected size of a private batch, a public number. A method chooses what is private in a
record, what is public, and how records are drawn. Teachers that vote, and a student that
learns from their noisy labels, learn without gradients of private records.
"""
