"""The one error tree. Every error is one true sentence and a next step.

HpcError
 · UsageError              the user asked for something that cannot be right (exit 2)
   · ProfileError          a cluster profile is missing or has a bad key or value
 · CommandError            a command could not be run to its end
   · CommandMissing        the program is not on that host's PATH
   · CommandTimeout        it did not answer in time (transient)
   · CommandFailed         it ended with a code that its caller did not expect
 · SlurmError              Slurm answered, and the answer is no
   · SlurmUnavailable      the controller or the database does not answer (transient)
   · SubmitRejected        an allocation or job request was refused (exit 4 in submit)
   · JobNotFound           no such job, or it has left Slurm's memory
   · PermissionRefused     the job belongs to somebody else, or the action is not allowed
   · AccountingDisabled    the site keeps no accounting, so sacct has nothing to say
   · UnreadableAnswer      Slurm's output has a shape that we do not know
 · ConnectError            the way from the laptop to the node is not open
   · Unreachable           no host answered (transient)
   · LoginsPaused          the next login that nobody asked for waits its turn (transient)
   · AuthenticationFailed  the login host said no; never retried by itself
     · CredentialExpired     no valid certificate or ticket is here, so nothing was tried
   · PromptNeeded          a person has to answer, and there is no terminal
   · HostKeyRefused        the host key is unknown and declined, or has changed
     · HostKeyChanged        it is not the key that a known_hosts file has
   · PipeRefused           one transport cannot be used on this cluster
     · ForwardingDenied      the login host's SSH server forbids forwarding
   · RelayGone             the way to the node is open, but no relay answers at its end
   · LaunchFailed          Jupyter could not be started in the job
   · SessionEnded          the job behind the session is over
   · SessionTaken          another jupyter-hpc of the same computer has taken the session over
   · PortTaken             something else listens on the session's local port
 · ConversionRefused       a notebook cannot become a script without changing its meaning (exit 3)
 · PreflightFailed         a job would fail, and was not queued (exit 5 in submit)
 · AlreadyRunning          there is one already, and two at once would disturb each other
 · ChangedSince            a file is no longer what was shown of it, so nothing was done with it
 · GpuUnavailable          no GPU data can be had, with the reason
   · NoGpu                 because there is none here
"""

from __future__ import annotations


class HpcError(Exception):
    """Base of all errors that are shown to a person.

    `message` is one sentence about what happened, `hint` says what to do next.
    `transient` tells a caller whether trying the same again later makes sense.
    """

    exit_code = 1
    transient = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(HpcError):
    """The request itself is wrong; raised before anything is changed.

    `about` is the part of it that is wrong, such as `chain` or `parameters.lr`, where it is one.
    """

    exit_code = 2
    about = ""

    def of(self, about: str) -> UsageError:
        """The same, about this part."""
        self.about = about
        return self


class ProfileError(UsageError):
    """A cluster profile is missing, or names a key or value that is not allowed."""


class CommandError(HpcError):
    """A command could not be run to its end."""


class CommandMissing(CommandError):
    """The program is not on the PATH of the host that should run it."""


class CommandTimeout(CommandError):
    """The command did not end within its deadline and was stopped."""

    transient = True


class CommandFailed(CommandError):
    """The command ended with an exit code that its caller has no answer for."""


class SlurmError(HpcError):
    """Slurm answered, and the answer is no."""


class SlurmUnavailable(SlurmError):
    """slurmctld or slurmdbd does not answer."""

    transient = True


class SubmitRejected(SlurmError):
    """salloc or sbatch refused the request; `hint` names what is allowed."""

    exit_code = 4


class JobNotFound(SlurmError):
    """No job of that id is known any more."""


class PermissionRefused(SlurmError):
    """Slurm does not let this user do this to this job."""


class AccountingDisabled(SlurmError):
    """The site keeps no accounting records."""


class UnreadableAnswer(SlurmError):
    """A Slurm command printed something that its parser does not know."""


class ConnectError(HpcError):
    """The way from the laptop to the node is not open."""


class Unreachable(ConnectError):
    """No host answered on the network."""

    transient = True


class LoginsPaused(ConnectError):
    """Too many logins did not last: the next one that nobody asked for comes in `seconds`."""

    transient = True

    def __init__(self, message: str, hint: str, seconds: float) -> None:
        super().__init__(message, hint)
        self.seconds = seconds


class AuthenticationFailed(ConnectError):
    """The login host refused the credentials; never retried without a person."""


class CredentialExpired(AuthenticationFailed):
    """The certificate or ticket that the site wants has ended or is missing; nothing was tried."""


class PromptNeeded(ConnectError):
    """A person has to answer a question, and there is nobody to ask."""


class HostKeyRefused(ConnectError):
    """The host key has changed, or is unknown and was not accepted."""


class HostKeyChanged(HostKeyRefused):
    """The host shows another key than the one that is known: somebody may listen in."""


class PipeRefused(ConnectError):
    """One transport cannot be used on this cluster."""


class ForwardingDenied(PipeRefused):
    """The SSH server of the login host forbids to forward connections."""


class RelayGone(ConnectError):
    """The node was reached, and no relay answers there: Jupyter has to be started again."""


class LaunchFailed(ConnectError):
    """Jupyter could not be started inside the job."""


class SessionEnded(ConnectError):
    """The job behind the session is over."""


class SessionTaken(ConnectError):
    """Another jupyter-hpc of the same computer has taken the session over."""


class PortTaken(ConnectError):
    """Something else listens on the session's local port."""


class ConversionRefused(HpcError):
    """The notebook cannot be converted without changing what it means."""

    exit_code = 3


class PreflightFailed(HpcError):
    """What was found before the queue says that the job would fail."""

    exit_code = 5


class AlreadyRunning(HpcError):
    """One of its kind runs, and a second one has to wait for its end."""


class ChangedSince(HpcError):
    """What a person has agreed to is not what is there now; they are asked again."""


class GpuUnavailable(HpcError):
    """No GPU data can be had; the message says which part is missing."""


class NoGpu(GpuUnavailable):
    """There is no GPU here, which is no fault: a job without one, a machine without one."""
