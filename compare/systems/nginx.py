"""nginx with `limit_req` at the request cap: a leaky bucket that delays up to `burst` calls, first come, first served."""

from harness.processes import Process, answers, free_port, wait_until

from .base import PATH, System

CONFIG = """\
limit_req_zone $host zone=llm:1m rate={rate}r/m;
limit_req zone=llm burst={burst};
limit_req_status 429;
"""

AROUND = """\
daemon off;
worker_processes 1;
pid {directory}/pid;
error_log {directory}/error.log error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  client_body_buffer_size 1m;
{config}
  upstream provider {{ server 127.0.0.1:{provider}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header connection ""; proxy_set_header host llm.test; }}
  }}
}}
"""


class Nginx(System):
    name, title, told = "nginx", "nginx limit_req", "request cap"

    def config(self):
        return CONFIG.format(rate=self.load.rpm, burst=self.load.rpm // 6)

    def process(self, provider_port, config):
        port = free_port()
        process = Process("nginx", ["nginx"])
        path = process.directory / "nginx.conf"
        path.write_text(AROUND.format(directory=process.directory, config=config, provider=provider_port, port=port))
        process.command += ["-c", str(path), "-p", str(process.directory)]
        return process, port

    async def start(self, stack, provider_port):
        process, port = self.process(provider_port, self.config())
        stack.callback(process.stop)
        process.start()
        wait_until(lambda: answers(port), 20, "nginx")
        return {"url": f"http://127.0.0.1:{port}{PATH}"}
