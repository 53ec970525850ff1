# Tangled from chapters/01_import/8g_profiled_steps.py — edit there, or here and run `readtorch sync`.
"""Which operators take the time: the profiler."""

from readtorch.autograd.profiler import kineto_available as kineto_available
from readtorch.autograd.profiler import record_function as record_function
from readtorch.autograd.profiler_util import DeviceType as DeviceType
from readtorch.profiler.profiler import ProfilerAction as ProfilerAction
from readtorch.profiler.profiler import ProfilerActivity as ProfilerActivity
from readtorch.profiler.profiler import profile as profile
from readtorch.profiler.profiler import schedule as schedule
from readtorch.profiler.profiler import supported_activities as supported_activities
from readtorch.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler
