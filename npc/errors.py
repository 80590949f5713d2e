"""The errors that a user of the brain can cause; each message is one line that names the file and the
remedy.
"""


class NpcError(ValueError):
    """Something given to the brain (a folder, a file, a name, a phrase) can't be used."""


class ModelError(NpcError):
    """A model folder is missing, incomplete or not of a kind that can be loaded."""


class AdapterError(NpcError):
    """An adapter folder is missing, damaged, or doesn't belong to the model it is put on."""


class PolicyError(NpcError):
    """The policy was asked for something impossible: an empty legal set, a phrase given twice, a wrong τ."""
