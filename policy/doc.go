// Package policy defines what a deployment demands: the strict manifest with its audit and certificate, the assurance
// report, and the messages between sidecar and control plane. Package policy/decide decides.
//
// A [Manifest] is parsed, audited ([Manifest.Audit]), certified by the deployment auditor ([Certify]) and turned into
// the gate's demands on each artifact ([Manifest.Strict]). A [Client] asks the control plane to decide a [Request].
package policy
