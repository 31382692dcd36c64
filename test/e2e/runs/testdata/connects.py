import socket, ssl, sys
unsure = ssl._create_unverified_context()
for line in sys.argv[1].split("\n"):
    kind, host, port = line.split()
    try:
        if kind == "tunnel":  # to the run's own resolver, whatever the address: it has no such record
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            for _ in range(2):  # which leave one record
                s.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0\6secret\4test\0\0\x10\0\1", (host, int(port)))
                answer = s.recv(512)
            print(line, answer[2:12])
            continue
        s = socket.create_connection((host, int(port)), timeout=60)
        if kind == "tls": s = unsure.wrap_socket(s, server_hostname=host)
        elif kind == "nameless": s = unsure.wrap_socket(s)
        elif kind == "misnamed": s = unsure.wrap_socket(s, server_hostname="misnamed.test")
        if kind == "ssh": s.send(b"SSH-2.0-OpenSSH_9.9\r\n")
        elif kind == "old": s.send(b"GET / HTTP/1.0\r\n\r\n")
        elif kind == "dns": s.send(b"\0\x1d\0\7\1\0\0\1\0\0\0\0\0\0\6secret\4test\0\0\x10\0\1")
        elif kind == "long": s.send(b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % (b"a." * 150))
        elif kind == "half": s.shutdown(socket.SHUT_WR)
        elif kind != "spare":
            if port not in ("80", "443"): host += ":" + port
            s.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        if kind == "spare": s.close()
        else: print(line, s.recv(12))
    except OSError as e: print(line, e)
