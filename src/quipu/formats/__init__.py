"""Files of memories: pure readers and writers, one for each format, with a memory Item as what they have in common.

A reader is given an open file and yields Items; a writer is given Items and an open file. Neither asks anybody else.
"""
