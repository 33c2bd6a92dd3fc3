/** haproxy and nginx in front of a gateway, as operators deploy them: pooled connections, shared by all clients. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from '../../support/ports.ts'

export type Front = { readonly url: string; stop(): Promise<void> }

/** How to start a proxy in front of a gateway at this port. */
type Kind = {
  readonly program: string
  readonly args: (file: string, folder: string) => readonly string[]
  readonly config: (port: number, to: number, folder: string) => string
}

const haproxy = (defaults: string): Kind => ({
  program: 'haproxy',
  args: (file) => ['-db', '-q', '-f', file],
  config: (port, to) => `global
  maxconn 256
defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  http-reuse always
${defaults}
frontend in
  bind 127.0.0.1:${port}
  default_backend out
backend out
  server gateway 127.0.0.1:${to}
`,
})

const nginx = (more: string): Kind => ({
  program: 'nginx',
  args: (file, folder) => ['-c', file, '-p', folder, '-e', 'stderr'],
  config: (port, to, folder) => `daemon off;
worker_processes 1;
pid ${folder}/pid;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream gateway { server 127.0.0.1:${to}; keepalive 2; }
  server {
    listen 127.0.0.1:${port};
${more}
    location / {
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_request_buffering off;
      proxy_buffering off;
    }
  }
}
`,
})

/** Default settings, and the most lenient ones. */
export const FRONTS = {
  haproxy: haproxy(''),
  'haproxy that forgives': haproxy('  option accept-invalid-http-request'),
  nginx: nginx(''),
  'nginx that forgives': nginx('    ignore_invalid_headers off;\n    underscores_in_headers on;'),
} as const satisfies { readonly [name: string]: Kind }

const FOLDERS = ['/usr/sbin', '/usr/local/sbin', '/usr/bin', '/usr/local/bin', '/opt/homebrew/bin']

export const startFront = async (name: keyof typeof FRONTS, to: string): Promise<Front | null> => {
  const { program, args, config } = FRONTS[name]
  const path = FOLDERS.map((folder) => join(folder, program)).find(existsSync)
  if (path === undefined) return null
  const folder = await mkdtemp(join(tmpdir(), 'headgate-front-'))
  const [port = 0] = await freePorts(1)
  const file = join(folder, 'conf')
  await writeFile(file, config(port, Number(new URL(to).port), folder))
  const child = spawn(path, args(file, folder), { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.on('data', (text: Buffer) => {
    output += text
  })
  const exited = new Promise<void>((resolve) => child.on('close', () => resolve()))
  const stop = async () => {
    child.kill('SIGTERM')
    const killer = setTimeout(() => child.kill('SIGKILL'), 5_000)
    await exited
    clearTimeout(killer)
    await rm(folder, { recursive: true, force: true })
  }
  if (await listens(port, child)) return { url: `http://127.0.0.1:${port}`, stop }
  await stop()
  throw new Error(`${name} did not start:\n${output}`)
}

const listens = async (port: number, child: ChildProcess): Promise<boolean> => {
  for (const end = performance.now() + 120_000; performance.now() < end && child.exitCode === null; ) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy()
        resolve(true)
      })
      socket.on('error', () => resolve(false))
    })
    if (open) return true
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return false
}
