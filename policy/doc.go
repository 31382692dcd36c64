// Package policy holds what a deployment demands: the strict deployment manifest with its audit and certificate, the assurance report, and
// what a sidecar and a control plane say to each other about one post. Package policy/decide decides.
//
// A [Manifest] is parsed strictly, audited ([Manifest.Audit]), certified by the deployment auditor ([Certify]) and turned into what
// the gate demands of each artifact ([Manifest.Strict]). A [Client] asks the control plane for the decision about one [Request].
package policy
