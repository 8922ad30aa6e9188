#!/usr/bin/env python3
"""Times the copies of a GPU with nothing of hopbench in the way: an independent check of its ceilings.

Calls the CUDA driver API through ctypes. Each figure is nvbandwidth's: after 4 warm-up copies, 16 copies on one stream
between two events, bytes / time, the median of 3 such rounds; 10^9 bytes a second, one direction.

    gpu_copies.py [--bytes N] [--device N] [--peer N]

Prints JSON: {"device_to_host": ..., "host_to_device": ..., "device_to_device": ..., "peer": ...} in bytes a second.
"""
import argparse
import ctypes
import json
import statistics
import sys

WARM_UP, COPIES, ROUNDS = 4, 16, 3


def main():
    options = argparse.ArgumentParser(description="copies of a GPU, timed without hopbench")
    options.add_argument("--bytes", type=int, default=256 << 20)
    options.add_argument("--device", type=int, default=0)
    options.add_argument("--peer", type=int)
    args = options.parse_args()
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        sys.exit(f"gpu_copies.py: {problem}")

    def call(name, *arguments):
        code = getattr(lib, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            lib.cuGetErrorName(code, ctypes.byref(text))
            sys.exit(f"gpu_copies.py: {name}: {(text.value or b'?').decode()} ({code})")

    void = ctypes.c_void_p
    pointer = ctypes.c_uint64
    size = ctypes.c_size_t(args.bytes)
    call("cuInit", 0)

    def context(ordinal):
        handle = void()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), ordinal)
        call("cuCtxSetCurrent", handle)
        return handle

    def allocate():
        p = pointer()
        call("cuMemAlloc_v2", ctypes.byref(p), size)
        return p

    far = far_context = None
    if args.peer is not None:
        far_context = context(args.peer)
        far = allocate()
    near_context = context(args.device)
    a, b = allocate(), allocate()
    host = void()
    call("cuMemHostAlloc", ctypes.byref(host), size, 1)
    ctypes.memset(host, 1, args.bytes)
    stream, first, last = void(), void(), void()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuEventCreate", ctypes.byref(first), 0)
    call("cuEventCreate", ctypes.byref(last), 0)

    def rate(copy):
        rounds = []
        for _ in range(ROUNDS):
            for _ in range(WARM_UP):
                copy()
            call("cuEventRecord", first, stream)
            for _ in range(COPIES):
                copy()
            call("cuEventRecord", last, stream)
            call("cuEventSynchronize", last)
            ms = ctypes.c_float()
            call("cuEventElapsedTime", ctypes.byref(ms), first, last)
            rounds.append(COPIES * args.bytes / (ms.value / 1e3))
        return statistics.median(rounds)

    figures = {
        "device_to_host": rate(lambda: call("cuMemcpyDtoHAsync_v2", host, a, size, stream)),
        "host_to_device": rate(lambda: call("cuMemcpyHtoDAsync_v2", a, host, size, stream)),
        "device_to_device": rate(lambda: call("cuMemcpyDtoDAsync_v2", b, a, size, stream)),
    }
    if far is not None:
        can = ctypes.c_int()
        call("cuDeviceCanAccessPeer", ctypes.byref(can), args.device, args.peer)
        if can.value:
            call("cuCtxEnablePeerAccess", far_context, 0)
        figures["peer_access"] = bool(can.value)
        figures["peer"] = rate(lambda: call("cuMemcpyPeerAsync", far, far_context, a, near_context, size, stream))
    json.dump(figures, sys.stdout)
    print()


main()
