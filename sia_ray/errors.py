"""Every error that sia-ray raises on purpose.

    SiaRayError                    exit 1
    ├── UsageError                 exit 2   the call, a flag or a file that a person wrote is wrong
    │   ├── ConfigError                     a configuration file or variable does not parse
    │   ├── PackError                       a task pack is not what it must be
    │   │   └── RequirementsRejected        no installation can satisfy the requirements
    │   └── SandboxUnavailable              no allowed sandbox works on this machine
    ├── NotFoundError              exit 3   a task, run, generation or file is not there
    ├── EditRejected               exit 1   a model's answer could not become a candidate
    ├── BundleRejected             exit 1   an archive that must not be unpacked
    ├── LedgerError                exit 5
    │   ├── LedgerLocked                    another live Supervisor owns this storage root
    │   ├── LedgerRefused                   the disk took nothing just now: full, read-only, kept busy
    │   ├── Fenced                          a newer Supervisor has taken over: this one must exit
    │   └── LedgerDamaged                   the hash chain or a row does not hold
    ├── UnknownTransition          exit 5   the state machine was asked for a step that it does not have
    └── InfrastructureError        exit 5   the machine, the network or Ray failed: nobody's candidate did
        ├── FetchError                      data could not be downloaded or did not match its digest
        └── EnvironmentBuildError           the installer could not do its work

To add one: give it a parent here, one line above, and a message that says what to do next.
All are picklable (they travel through Ray): constructor arguments are kept in ``args``.
"""

from __future__ import annotations

from typing import ClassVar


class SiaRayError(Exception):
    """Base class. ``message`` says what happened, ``hint`` what to do next."""

    kind: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(SiaRayError):
    kind = "usage"
    exit_code = 2


class ConfigError(UsageError):
    kind = "config"


class PackError(UsageError):
    kind = "pack"


class RequirementsRejected(PackError):
    kind = "requirements"


class SandboxUnavailable(UsageError):
    kind = "sandbox_unavailable"


class NotFoundError(SiaRayError):
    kind = "not_found"
    exit_code = 3


class EditRejected(SiaRayError):
    """An answer that cannot be applied; ``reason`` is one of ``candidate.edits.Rejection``."""

    kind = "edit_rejected"

    def __init__(self, message: str, hint: str = "", reason: str = "malformed_edit") -> None:
        super().__init__(message, hint)
        self.args = (message, hint, reason)
        self.reason = reason


class BundleRejected(SiaRayError):
    kind = "bundle_rejected"


class InfrastructureError(SiaRayError):
    kind = "infrastructure"
    exit_code = 5


class FetchError(InfrastructureError):
    kind = "fetch"


class EnvironmentBuildError(InfrastructureError):
    kind = "environment"


class LedgerError(SiaRayError):
    kind = "ledger"
    exit_code = 5


class LedgerLocked(LedgerError):
    kind = "ledger_locked"


class LedgerRefused(LedgerError):
    kind = "ledger_refused"


class Fenced(LedgerError):
    kind = "fenced"


class LedgerDamaged(LedgerError):
    kind = "ledger_damaged"


class UnknownTransition(SiaRayError):
    kind = "unknown_transition"
    exit_code = 5
