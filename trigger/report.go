package trigger

import (
	"context"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Report keeps an event with an unverified origin. Lists show it, but it cannot cause a post. Its kind is human_request
// or unknown, its method manual or self_reported.
func (s *Service) Report(ctx context.Context, kind, method, source string, payload []byte) (id string, err error) {
	if kind != evidence.TriggerHumanRequest && kind != evidence.TriggerUnknown || method != evidence.MethodManual &&
		method != evidence.MethodSelfReported {
		return "", refusal.New("trigger_unverified",
			"a reported event must have the kind human_request or unknown and the method manual or self_reported")
	}
	reportID := "rep_" + evidence.NewID()
	id, _, err = s.add(ctx, arrival{
		kind: kind, source: source, method: method, evidenceID: reportID, payload: payload,
		verified: map[string]string{"reportId": reportID},
	})
	return id, err
}
