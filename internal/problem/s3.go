package problem

import (
	"encoding/xml"
	"net/http"
	"strings"
)

// isS3 reports whether the request is signed for S3, whose clients read an error only as XML.
func isS3(r *http.Request) bool {
	signed := r.Header.Get("Authorization")
	return strings.HasPrefix(signed, "AWS4-") && strings.Contains(signed, "/s3/aws4_request")
}

// s3Error is an error of S3 (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html).
type s3Error struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

func (d Details) writeS3(w http.ResponseWriter) {
	body, err := xml.Marshal(s3Error{Code: d.Code, Message: d.Advice()})
	d.write(w, "application/xml", append([]byte(xml.Header), body...), err)
}
