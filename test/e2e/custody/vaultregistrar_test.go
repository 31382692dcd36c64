package custody

import (
	"fmt"
	"testing"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// Keys in Vault rotate twice under load. The registrar certifies each version, so no post is lost.
func TestVaultRegistrar(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.Rig = kit.PrepareClientsRig(t, kit.ManyPosts, v.config)
	v.AddRegistrar(t)
	kit.Write(t, v.In("registrar.yaml"), v.config(string(kit.Read(t, v.In("registrar.yaml")))))
	roots := v.options()
	roots.Roots = true
	plan, err := bootstrap.New(roots)
	check.Must(t, err)
	v.carryOut(t, plan)
	v.StartRegistered(t)
	posts, stop := v.keepPosting(t, 2)
	defer stop()
	for version := 2; version <= 3; version++ {
		for _, r := range rolesOfPosts() {
			v.vault.Write(t, "transit/keys/"+r.Key+"/rotate", nil)
		}
		kit.Until(t, "signatures with the newest versions", func() bool {
			kids := v.kids(t)
			for _, r := range rolesOfPosts() {
				if kids[r.Key] != fmt.Sprintf("%s:v%d", r.Key, version) {
					return false
				}
			}
			return true
		})
		plan, err := bootstrap.Deliver(roots, "registry")
		check.Must(t, err)
		v.carryOut(t, plan)
		v.RestartRegistered(t, "registrar")
	}
	stop()
	if n := v.Posts.Load(); n != posts.Load() || n == 0 {
		t.Errorf("%d posts arrived, and agents saw %d answers", n, posts.Load())
	}
}
