"""Every error holdfast raises on purpose.

HoldfastError
├── CheckpointError
│   ├── CheckpointSaveError           the save did not happen (also an OSError)
│   │   └── OutcomeUnknownError       it may have happened; load the run and compare
│   │       └── SyncFailedError       it can be read, but may not survive a power cut
│   ├── CheckpointLoadError           the store could not be read (also an OSError)
│   ├── CheckpointNotFoundError       no such run or checkpoint (also a LookupError)
│   │   └── ThreadNotFoundError       no such thread, or nothing of this flow in it
│   ├── CheckpointCorruptedError      stored bytes are not what was written (also a ValueError)
│   │   ├── UnknownFormatError        a newer version may have written them
│   │   ├── KeyDestroyedError         its owner was forgotten: nobody can read it any more
│   │   ├── PlaintextError            not encrypted, where everything must be
│   │   └── SignatureError            not signed by a trusted key, where everything must be
│   ├── KeyMissingError               encrypted or signed, and the key was not given
│   ├── WrongKeyError                 another key than was used has this id
│   ├── HistoryRewoundError           the store has less, or other, than is remembered of it
│   ├── SerializeError                a value can't be stored; `path` leads to it (also a TypeError)
│   ├── ReviveError                   stored data does not fit the type asked for (also a TypeError)
│   │   └── UnknownCodecError         its codec is not registered in this process
│   ├── SecretMissingError            nobody provides the value of a secret (also a LookupError)
│   ├── StateTooLargeError            larger than `max_state_bytes` (also a ValueError)
│   ├── RunActiveError                the run is live or waiting; nothing was done to it
│   ├── RunExistsError                the id given for a new run is taken
│   │   ├── RunDeletedError           it was deleted here, and stays deleted
│   │   └── CopyRefusedError          the target has other runs with these ids, or continued them
│   ├── RunMismatchError              it has another flow, thread or owner (also a ValueError)
│   ├── NotOwnerError                 the run belongs to somebody else
│   ├── RunTakenError                 another owner uses the id
│   ├── BoundOwnerError               the checkpointer is bound to another owner (also a ValueError)
│   ├── RunIdRequiredError            a store was given, but no run id (also a ValueError)
│   ├── StoreRequiredError            the run asks people, but no store keeps it (also a ValueError)
│   ├── RunFinishedError              the run has ended and can't be resumed
│   ├── InputMismatchError            resumed with other inputs (also a ValueError)
│   ├── FlowChangedError              the flow is not the one the run began with
│   │   └── MigrationError            a state can't become one of the code's version
│   ├── StepNotFoundError             no such step was begun (also a LookupError)
│   ├── StepConflictError             the step was committed differently, or is no longer current
│   └── VerificationError             claims of a checkpoint are false now, or can't be checked
├── EvidenceError                     a claim, or a pack of claims, can't be used
│   ├── InvalidEvidenceError          malformed, empty or unsatisfiable (also a ValueError)
│   ├── EvidencePolicyError           the program's own policy can never allow it to be checked
│   └── ClaimFailedError              a step finished, but its claims are false or can't be checked
├── RunError                          a run did not complete
│   ├── StepFailedError               a step failed, and with it the run unless the flow caught it
│   ├── StepNotAwaitedError           a flow made a step and never awaited it
│   ├── RunStoppedError               nobody executes the run any more; resume it
│   ├── UnknownFlowError              the engine does not know the run's flow (also a LookupError)
│   ├── FlowMissingError              the flow's code is not on that machine (also a LookupError)
│   ├── StepTimeoutError              a step took too long (also a TimeoutError)
│   ├── CommandFailedError            a command that a step ran failed
│   ├── ExecutorBrokenError           the executor of a step broke, and can't be used any more
│   ├── RunTimeoutError               the run took too long; it can be resumed (also a TimeoutError)
│   ├── LoopLimitError                the run made as many steps as it may
│   ├── UnansweredError               nobody answered before the deadline (also a TimeoutError)
│   ├── NoPathError                   no path leaves a step
│   ├── UnresolvedError               a template or condition refers to nothing (also a LookupError)
│   ├── EndedWithFailureError         the run reached an end that its flow calls a failure
│   ├── RunPausedError                the run waits for an answer or was paused; resume it later
│   ├── RunCancelledError             the run was cancelled
│   ├── LeaseLostError                another process took the run over; this one wrote nothing more
│   └── UnsavedWarning                completed, but not saved: a warning (also a RuntimeWarning)
├── InvalidFlowError                  a flow can't run as it is defined (also a ValueError)
├── QuestionError                     there is no such open question, or not for this person
│   └── InvalidAnswerError            the answer does not fit the question (also a ValueError)
├── ConflictError                     another writer already took this position
│   ├── EntriesLostError              the store lost acknowledged entries (also a StoreError)
│   └── SecondWriterError             another process writes to the same LangGraph thread
├── CutOverError                      runs from before there was a key, and nobody accepted them
├── AnchorError                       not an anchor, or one that was changed (also a ValueError)
├── InvalidIdError                    an id that stores could confuse (also a ValueError)
├── KeyFileError                      a key, or a file of keys, can't be used (also a ValueError)
├── InvalidSignatureError             the key did not sign this (also a ValueError)
│   └── UntrustedKeyError             signed by a key that is not trusted here
└── StoreError                        nothing was written
    ├── HeadsFileError                the file in which heads are remembered can't be used
    ├── StoreUnavailableError         unreachable, locked or full; retrying may help
    ├── StoreClosedError              used after close()
    ├── StoreURLError                 a URL or path that names no store (also a ValueError)
    ├── SchemaError                   written by a newer holdfast, or not a holdfast store
    └── DurabilityError               the store survives less than the caller requires

Every error has its fields as attributes, survives pickling and says what to do next. `base` says
how errors are declared; each branch of the tree is a module.
"""

# ruff: noqa: F403, F405 - the branches of the tree have the names of __all__

from holdfast.errors.base import HoldfastError
from holdfast.errors.checkpoints import *
from holdfast.errors.evidence import *
from holdfast.errors.keys import *
from holdfast.errors.resuming import *
from holdfast.errors.runs import *
from holdfast.errors.stores import *

__all__ = [
    "AnchorError",
    "BoundOwnerError",
    "CheckpointCorruptedError",
    "CheckpointError",
    "CheckpointLoadError",
    "CheckpointNotFoundError",
    "CheckpointSaveError",
    "ClaimFailedError",
    "CommandFailedError",
    "ConflictError",
    "CopyRefusedError",
    "CutOverError",
    "DurabilityError",
    "EndedWithFailureError",
    "EntriesLostError",
    "EvidenceError",
    "EvidencePolicyError",
    "ExecutorBrokenError",
    "FlowChangedError",
    "FlowMissingError",
    "HeadsFileError",
    "HistoryRewoundError",
    "HoldfastError",
    "InputMismatchError",
    "InvalidAnswerError",
    "InvalidEvidenceError",
    "InvalidFlowError",
    "InvalidIdError",
    "InvalidSignatureError",
    "KeyDestroyedError",
    "KeyFileError",
    "KeyMissingError",
    "LeaseLostError",
    "LoopLimitError",
    "MigrationError",
    "NoPathError",
    "NotOwnerError",
    "OutcomeUnknownError",
    "PlaintextError",
    "QuestionError",
    "ReviveError",
    "RunActiveError",
    "RunCancelledError",
    "RunDeletedError",
    "RunError",
    "RunExistsError",
    "RunFinishedError",
    "RunIdRequiredError",
    "RunMismatchError",
    "RunPausedError",
    "RunStoppedError",
    "RunTakenError",
    "RunTimeoutError",
    "SchemaError",
    "SecondWriterError",
    "SecretMissingError",
    "SerializeError",
    "SignatureError",
    "StateTooLargeError",
    "StepConflictError",
    "StepFailedError",
    "StepNotAwaitedError",
    "StepNotFoundError",
    "StepTimeoutError",
    "StoreClosedError",
    "StoreError",
    "StoreRequiredError",
    "StoreURLError",
    "StoreUnavailableError",
    "SyncFailedError",
    "ThreadNotFoundError",
    "UnansweredError",
    "UnknownCodecError",
    "UnknownFlowError",
    "UnresolvedError",
    "UnsavedWarning",
    "UntrustedKeyError",
    "VerificationError",
    "WrongKeyError",
]
