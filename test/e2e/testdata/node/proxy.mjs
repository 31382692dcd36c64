// Preloaded into Node so that its own fetch follows HTTP_PROXY and HTTPS_PROXY, which Node does by itself only from version 24 on.
import { EnvHttpProxyAgent, setGlobalDispatcher } from "undici";

setGlobalDispatcher(new EnvHttpProxyAgent());
