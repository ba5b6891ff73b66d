"""The least external processor: agrees with headers and bodies as they come, over gRPC with messages written by hand.

    ext_proc_server.py PORT
"""

import sys
from concurrent import futures

import grpc

METHOD = "envoy.service.ext_proc.v3.ExternalProcessor"
# Field of the answer (ProcessingResponse) by field of the question (ProcessingRequest): headers, body, trailers.
ANSWERS = {2: b"\x0a\x00", 3: b"\x12\x00", 4: b"\x1a\x00", 5: b"\x22\x00", 6: b"\x2a\x00", 7: b"\x32\x00"}


def field(message):
    """The question's kind: the first of its fields that is one of those."""
    at = 0
    while at < len(message):
        number, wire = message[at] >> 3, message[at] & 7
        if number in ANSWERS:
            return number
        at += 1
        length = shift = 0
        while True:
            byte = message[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += length if wire == 2 else 0
    raise ValueError("no question")


def process(questions, _):
    for message in questions:
        yield ANSWERS[field(message)]


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64), options=[("grpc.max_receive_message_length", 8 << 20)])
    handler = grpc.stream_stream_rpc_method_handler(process)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(METHOD, {"Process": handler})])
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
