import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(what, *args):
    if libc.syscall(*args) < 0: raise OSError(ctypes.get_errno(), what)
for line in sys.argv[1].split("\n"):
    kind, to = line.split(" ", 1)
    try:
        if kind == "socket": socket.socket(int(to), socket.SOCK_DGRAM if to == "40" else socket.SOCK_SEQPACKET)
        elif kind == "uring": call("io_uring", 425, 1, ctypes.create_string_buffer(120))
        elif kind == "key": call("keyctl", {"x86_64": 250}.get(os.uname().machine, 219), 0, -3, 0, 0, 0)
        elif kind == "unix":
            socket.socket(socket.AF_UNIX).connect(to.replace("@", "\0"))
        else:
            host, port = to.rsplit(":", 1)
            s = socket.socket(socket.AF_INET6 if "[" in host else socket.AF_INET,
                socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
            s.settimeout(5)
            s.connect((host.strip("[]"), int(port)))
            if kind == "udp":
                s.send(b"a secret")
                s.send(b"a secret") # reports a refusal of the first
        print("OPEN", line)
    except OSError as e:
        print("closed", line, e)
