"""Numbers and logs about what holdfast does: metrics, and what a log record says of its step.

    from holdfast.telemetry import Metrics, StepFilter

    metrics = Metrics()
    engine = hf.Engine("sqlite:///runs.db", listeners=[metrics])
    print(metrics.prometheus())

Nothing here shows arguments, results, error messages or what evidence was found: only names, ids,
types and numbers. Spans are in `holdfast.integrations.otel`.
"""

from holdfast.engine.observing import RunObserver
from holdfast.kernel.observing import Listener, Observer
from holdfast.telemetry.logs import StepFilter
from holdfast.telemetry.measures import Measure, Measuring
from holdfast.telemetry.metrics import Metrics

__all__ = [
    "Listener",
    "Measure",
    "Measuring",
    "Metrics",
    "Observer",
    "RunObserver",
    "StepFilter",
]
