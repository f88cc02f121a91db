"""No sandbox: the command runs as we do. Limits, capture and clean-up hold; secrets, files and network do not.

Used only where a person asks for it by name; its results are marked and never promoted.
"""

from __future__ import annotations

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox.disk import writable_folders
from sia_ray.sandbox.layout import layout, spelled_for_the_host
from sia_ray.sandbox.namespaces import command_plan, launch
from sia_ray.sandbox.policy import Finished, Job
from sia_ray.sandbox.process import not_started, supervise
from sia_ray.sandbox.scratch import scratch_folder


class Unsandboxed:
    """A session of its own and an environment that holds only the job's variables."""

    name = "none"
    isolates = False

    def run(self, job: Job) -> Finished:
        try:
            layout(job)  # for its complaints alone: they are the same everywhere
            with scratch_folder() as tmp:
                plan = command_plan(spelled_for_the_host(job, tmp), isolate=False)
                start = launch(plan, namespaced=False, writable=(*writable_folders(job), tmp))
                return supervise(start, job.limits, self.name)
        except InfrastructureError as error:
            return not_started(self.name, str(error))
