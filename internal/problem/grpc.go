package problem

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// The status codes of gRPC that a refusal can have (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md).
const (
	grpcUnknown          = 2
	grpcPermissionDenied = 7
	grpcUnavailable      = 14 // clients may try again
	grpcUnauthenticated  = 16
)

// Answer is Write for a request of any protocol that its header shows. A client of S3 gets XML. A gRPC client reads no
// document: it gets a status with the sentence as its message ("Trailers-Only",
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
func (d Details) Answer(w http.ResponseWriter, r *http.Request) {
	if isS3(r) {
		d.writeS3(w)
		return
	}
	if !IsGRPC(r) {
		d.Write(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(d.grpcStatus()))
	h.Set("Grpc-Message", percentEncoded(d.Advice()))
	w.WriteHeader(http.StatusOK)
}

// IsGRPC reports whether the request is a gRPC call.
func IsGRPC(r *http.Request) bool {
	kind, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ok && r.ProtoMajor == 2 && (kind == "" || kind[0] == '+' || kind[0] == ';')
}

func (d Details) grpcStatus() int {
	switch {
	case d.Status == http.StatusUnauthorized || d.Status == http.StatusProxyAuthRequired:
		return grpcUnauthenticated
	case d.RetryAfter > 0:
		return grpcUnavailable
	case d.Status < http.StatusInternalServerError:
		return grpcPermissionDenied
	}
	return grpcUnknown // a call that may have been sent must not be tried again
}

// percentEncoded encodes all but printable ASCII, and the percent sign.
func percentEncoded(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
