package custody

import (
	"fmt"
	"testing"

	"github.com/actionproof/mediator/test/e2e/kit"
)

// Keys in Vault rotate twice under load. The registrar certifies each version, so no post is lost.
func TestVaultRegistrar(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.Rig = kit.PrepareClientsRig(t, kit.ManyPosts, v.config)
	v.AddRegistrar(t)
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
		v.RestartRegistered(t, "registrar")
	}
	stop()
	if n := v.Posts.Load(); n != posts.Load() || n == 0 {
		t.Errorf("%d posts arrived, and agents saw %d answers", n, posts.Load())
	}
}
