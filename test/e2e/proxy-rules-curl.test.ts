/** The rules of proxies against curl, whose rules they are: which proxy does a URL use with these variables? */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { type AddressInfo, createServer } from 'node:net'
import { after, test } from 'node:test'
import { proxyFor, proxyRules } from '../../src/policy/egress/proxy-rules.ts'

type Env = { readonly [name: string]: string }

/** A proxy that refuses everything and counts the requests for each URL. */
const refusingProxy = async (): Promise<{ readonly port: number; readonly seen: string[]; close(): void }> => {
  const seen: string[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (chunk: Buffer) => {
      seen.push(chunk.toString('latin1'))
      socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, seen, close: () => void server.close() }
}

const version = (() => {
  try {
    return /^curl (\d+)\.(\d+)/.exec(execFileSync('curl', ['--version'], { encoding: 'utf8' }))
  } catch {
    return null
  }
})()
/** Ranges of addresses are known since 7.86. */
const isUsable = version !== null && Number(version[1]) * 100 + Number(version[2]) >= 786

const NAMES = ['https://api.example.com/', 'http://example.com/', 'https://notexample.com/']
const ADDRESSES = ['http://10.1.2.3/', 'https://10.200.0.1/', 'http://[2001:db8::1]/']

/** `P` and `Q` are the addresses of two proxies. HTTP_PROXY is left out: curl ignores it, because it can be set by a CGI client. */
const VARIABLES: readonly Env[] = [
  { https_proxy: 'P' },
  { HTTPS_PROXY: 'P' },
  { http_proxy: 'P' },
  { all_proxy: 'P' },
  { ALL_PROXY: 'P' },
  { https_proxy: 'P', HTTPS_PROXY: 'Q' },
  { all_proxy: 'P', https_proxy: 'Q' },
  { ALL_PROXY: 'P', http_proxy: 'Q' },
]

/** Without ports, `*.example.com`, and IPv6 with brackets or a range, which curl 7.88 does not know. */
const LISTS = [
  '',
  '*',
  'example.com',
  '.example.com',
  'EXAMPLE.com',
  'example.com.',
  'com',
  'notexample.com',
  'a.example,example.com',
  'a.example, example.com',
  '10.1.2.3',
  '10.0.0.0/8',
  '192.168.0.0/16,10.200.0.0/16',
  '2001:db8::1',
  '10.200.0.1/32',
  'b.example example.com',
]

const cases: readonly (readonly [env: Env, url: string])[] = [
  ...VARIABLES.flatMap((env) => [...NAMES.slice(0, 2), ...ADDRESSES.slice(0, 1)].map((url) => [env, url] as const)),
  ...LISTS.flatMap((list) =>
    [...NAMES, ...ADDRESSES].map((url) => [{ https_proxy: 'P', http_proxy: 'Q', no_proxy: list }, url] as const),
  ),
]

test(`proxy rules: curl chooses the same in ${cases.length} cases`, {
  skip: !isUsable && 'curl 7.86 is needed',
}, async () => {
  const [p, q] = [await refusingProxy(), await refusingProxy()]
  after(() => {
    p.close()
    q.close()
  })
  const filled = (env: Env): Env =>
    Object.fromEntries(
      Object.entries(env).map(([name, value]) => [
        name,
        value.replace(/^[PQ]$/, (which) => `http://127.0.0.1:${which === 'P' ? p.port : q.port}`),
      ]),
    )
  /** The proxy that curl used. Direct connections go to a port of this machine where nothing listens, or nowhere. */
  const byCurl = (env: Env, url: string, mark: string): Promise<string> =>
    new Promise((resolve) => {
      const args = ['-s', '-A', mark, '--connect-timeout', '0.5', '--max-time', '5']
      const places = [80, 443].flatMap((port) => ['--resolve', `*:${port}:127.0.0.1`])
      execFile('curl', [...args, ...places, url], { env: { PATH: process.env.PATH ?? '', ...filled(env) } }, () => {
        const has = ({ seen }: { readonly seen: readonly string[] }) => seen.some((text) => text.includes(`${mark}\r`))
        resolve(has(p) ? `127.0.0.1:${p.port}` : has(q) ? `127.0.0.1:${q.port}` : 'direct')
      })
    })
  const different: string[] = []
  const queue = [...cases.entries()]
  const worker = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [at, [env, url]] = next
      const set = filled(env)
      const { rules } = proxyRules((name) => set[name] || undefined)
      const [ours, theirs] = [proxyFor(rules, new URL(url))?.name ?? 'direct', await byCurl(env, url, `case-${at}`)]
      if (ours !== theirs) different.push(`${JSON.stringify(env)} ${url}: here ${ours}, curl ${theirs}`)
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  assert.deepEqual(different, [])
  assert.ok(p.seen.length > 10 && q.seen.length > 10)
})
