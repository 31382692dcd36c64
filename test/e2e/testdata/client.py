"""client.py LIBRARY METHOD URL [BODY]: one call with requests or httpx; prints the status and the problem code, if there is one."""
import sys

library, method, url = sys.argv[1:4]
body = sys.argv[4] if len(sys.argv) > 4 else None
module = __import__(library)
response = module.request(method, url, data=body, headers={"Content-Type": "application/json"} if body else {})
code = ""
if response.headers.get("Content-Type", "").startswith("application/problem+json"):
    code = response.json()["code"]
print(f"{response.status_code} {code}".strip())
