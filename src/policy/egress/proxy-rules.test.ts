import assert from 'node:assert/strict'
import { test } from 'node:test'
import { proxyFor, proxyRules } from './proxy-rules.ts'

type Env = { readonly [name: string]: string }

const rulesOf = (env: Env) => proxyRules((name) => (env[name] === '' ? undefined : env[name]))

/** `name via variable`, or `direct`. */
const routeOf = (env: Env, url: string): string => {
  const { rules, problems } = rulesOf(env)
  assert.deepEqual(problems, [])
  const proxy = proxyFor(rules, new URL(url))
  return proxy ? `${proxy.name} ${proxy.variable}` : 'direct'
}

const OPENAI = 'https://api.openai.com/v1'
const PLAIN = 'http://llm.corp/v1'

/** The variable that counts, for an https and for an http URL. */
const variables: readonly (readonly [env: Env, https: string, http: string])[] = [
  [{}, 'direct', 'direct'],
  [{ HTTPS_PROXY: 'http://p:1' }, 'p:1 HTTPS_PROXY', 'direct'],
  [{ https_proxy: 'http://p:1' }, 'p:1 https_proxy', 'direct'],
  [{ HTTP_PROXY: 'http://p:1' }, 'direct', 'p:1 HTTP_PROXY'],
  [{ http_proxy: 'http://p:1' }, 'direct', 'p:1 http_proxy'],
  [{ ALL_PROXY: 'http://p:1' }, 'p:1 ALL_PROXY', 'p:1 ALL_PROXY'],
  [{ all_proxy: 'http://p:1' }, 'p:1 all_proxy', 'p:1 all_proxy'],
  // The names in lower case come first, as in curl.
  [{ HTTPS_PROXY: 'http://p:1', https_proxy: 'http://q:2' }, 'q:2 https_proxy', 'direct'],
  [{ HTTP_PROXY: 'http://p:1', http_proxy: 'http://q:2' }, 'direct', 'q:2 http_proxy'],
  [{ ALL_PROXY: 'http://p:1', all_proxy: 'http://q:2' }, 'q:2 all_proxy', 'q:2 all_proxy'],
  [{ ALL_PROXY: 'http://p:1', HTTPS_PROXY: 'http://q:2' }, 'q:2 HTTPS_PROXY', 'p:1 ALL_PROXY'],
  [{ ALL_PROXY: 'http://p:1', HTTP_PROXY: 'http://q:2' }, 'p:1 ALL_PROXY', 'q:2 HTTP_PROXY'],
  [{ all_proxy: 'http://p:1', HTTPS_PROXY: 'http://q:2' }, 'q:2 HTTPS_PROXY', 'p:1 all_proxy'],
  [{ HTTPS_PROXY: '', https_proxy: 'http://q:2' }, 'q:2 https_proxy', 'direct'],
  [{ HTTPS_PROXY: 'http://p:1', https_proxy: '' }, 'p:1 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'http://p:1', HTTP_PROXY: 'http://q:2' }, 'p:1 HTTPS_PROXY', 'q:2 HTTP_PROXY'],
  // A SOCKS proxy that nothing uses, as some desktop proxies set it beside the others.
  [
    { ALL_PROXY: 'socks5://127.0.0.1:7891', HTTPS_PROXY: 'http://127.0.0.1:7890', HTTP_PROXY: 'http://127.0.0.1:7890' },
    '127.0.0.1:7890 HTTPS_PROXY',
    '127.0.0.1:7890 HTTP_PROXY',
  ],
  [{ HTTPS_PROXY: 'p:3128' }, 'p:3128 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'proxy.corp' }, 'proxy.corp:80 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'http://proxy.corp' }, 'proxy.corp:80 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'https://proxy.corp' }, 'proxy.corp:443 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'HTTP://Proxy.Corp:8080/' }, 'proxy.corp:8080 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'http://[fd00::1]:3128' }, '[fd00::1]:3128 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'http://user:pass@proxy.corp:3128' }, 'proxy.corp:3128 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'user:pass@proxy.corp:3128' }, 'proxy.corp:3128 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'http://user:p@ss/w#rd?@proxy.corp:3128' }, 'proxy.corp:3128 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'http://CORP\\user:pass@proxy.corp:3128' }, 'proxy.corp:3128 HTTPS_PROXY', 'direct'],
  [{ HTTPS_PROXY: 'socks5://p:1', NO_PROXY: '*' }, 'direct', 'direct'],
]

for (const [env, https, http] of variables) {
  test(`proxy rules: ${JSON.stringify(env)} for https`, () => assert.equal(routeOf(env, OPENAI), https))
  test(`proxy rules: ${JSON.stringify(env)} for http`, () => assert.equal(routeOf(env, PLAIN), http))
}

/** Whether `NO_PROXY` excludes a URL. Both proxies are set. */
const excluded: readonly (readonly [list: string, url: string, isDirect: boolean])[] = [
  ['', OPENAI, false],
  ['*', OPENAI, true],
  ['*', PLAIN, true],
  ['a.example,*', OPENAI, true],
  ['example.com', 'https://example.com/v1', true],
  ['example.com', 'https://llm.example.com/v1', true],
  ['example.com', 'https://a.b.example.com/v1', true],
  ['example.com', 'https://notexample.com/v1', false],
  ['example.com', 'https://example.com.evil.test/v1', false],
  ['example.com', 'http://example.com:8080/v1', true],
  ['EXAMPLE.com', 'https://llm.Example.COM/v1', true],
  ['example.com', 'https://example.com./v1', true],
  ['example.com.', 'https://example.com/v1', true],
  ['.example.com', 'https://llm.example.com/v1', true],
  ['.example.com', 'https://example.com/v1', true],
  ['.example.com', 'https://notexample.com/v1', false],
  ['*.example.com', 'https://llm.example.com/v1', true],
  ['*.example.com', 'https://example.com/v1', true],
  ['*.example.com', 'https://notexample.com/v1', false],
  ['com', 'https://example.com/v1', true],
  ['corp', 'https://llm.corp/v1', true],
  ['llm', 'http://llm/v1', true],
  ['llm', 'http://llm.corp/v1', false],
  ['.svc.cluster.local', 'http://vllm.ai.svc.cluster.local:8000/v1', true],
  ['.svc', 'http://vllm.ai.svc.cluster.local:8000/v1', false],
  ['.svc,.cluster.local', 'http://vllm.ai.svc.cluster.local:8000/v1', true],
  ['a.example, b.example', 'https://b.example/v1', true],
  ['a.example b.example', 'https://b.example/v1', true],
  ['a.example\tb.example\nc.example', 'https://c.example/v1', true],
  [',, a.example ,,', 'https://a.example/v1', true],
  ['a.example;b.example', 'https://b.example/v1', false],
  ['example.com:8443', 'https://example.com:8443/v1', true],
  ['example.com:8443', 'https://example.com/v1', false],
  ['example.com:443', 'https://example.com/v1', true],
  ['example.com:80', 'http://example.com/v1', true],
  ['example.com:80', 'https://example.com/v1', false],
  ['.example.com:8443', 'https://llm.example.com:8443/v1', true],
  ['example.com:0443', 'https://example.com/v1', true],
  ['10.1.2.3', 'http://10.1.2.3:8000/v1', true],
  ['10.1.2.3', 'http://10.1.2.30/v1', false],
  ['10.1.2.3:8000', 'http://10.1.2.3:8000/v1', true],
  ['10.1.2.3:8000', 'http://10.1.2.3/v1', false],
  ['10.0.0.0/8', 'http://10.200.3.4:8000/v1', true],
  ['10.0.0.0/8', 'http://11.0.0.1/v1', false],
  ['172.16.0.0/12', 'https://172.31.255.255/v1', true],
  ['172.16.0.0/12', 'https://172.32.0.0/v1', false],
  ['192.168.0.0/16,10.0.0.0/8', 'http://10.0.0.1/v1', true],
  ['192.168.1.0/24', 'http://192.168.1.77/v1', true],
  ['192.168.1.7/32', 'http://192.168.1.77/v1', false],
  ['0.0.0.0/0', 'http://8.8.8.8/v1', true],
  // Names are not resolved.
  ['10.0.0.0/8', 'https://10.0.0.1.nip.example/v1', false],
  ['2001:db8::1', 'http://[2001:db8::1]:8000/v1', true],
  ['[2001:db8::1]', 'http://[2001:db8::1]:8000/v1', true],
  ['[2001:db8::1]:8000', 'http://[2001:db8::1]:8000/v1', true],
  ['[2001:db8::1]:8000', 'http://[2001:db8::1]/v1', false],
  ['2001:DB8:0:0:0:0:0:1', 'http://[2001:db8::1]/v1', true],
  ['2001:db8::/32', 'http://[2001:db8:ffff::9]/v1', true],
  ['2001:db8::/32', 'http://[2001:db9::9]/v1', false],
  ['[2001:db8::]/32', 'http://[2001:db8:ffff::9]/v1', true],
  ['::ffff:10.0.0.0/104', 'http://10.9.9.9/v1', true],
  ['10.0.0.0/8', 'http://[::ffff:10.9.9.9]/v1', true],
  ['10.0.0.0/8', 'http://0x0a000001/v1', true],
  ['http://10.1.2.3', 'http://10.1.2.3:8000/v1', true],
  ['https://llm.example:8443/', 'https://llm.example:8443/v1', true],
  ['127.0.0.1/8,169.254.169.254/32,10.1.2.3', 'http://10.1.2.3:8000/v1', true],
  ['bücher.example', 'https://xn--bcher-kva.example/v1', true],
  ['xn--bcher-kva.example', 'https://bücher.example/v1', true],
  ['my_host.corp', 'http://my_host.corp/v1', true],
  // Never through a proxy, with any list.
  ['', 'http://localhost:11434/v1', true],
  ['', 'https://localhost/v1', true],
  ['', 'http://llm.localhost:8000/v1', true],
  ['', 'http://127.0.0.1:8000/v1', true],
  ['', 'http://127.8.9.1:8000/v1', true],
  ['', 'http://[::1]:8000/v1', true],
  ['', 'http://[::ffff:127.0.0.1]:8000/v1', true],
  ['', 'http://0.0.0.0:8000/v1', true],
  ['', 'http://[::]:8000/v1', true],
  ['', 'http://169.254.169.254/latest/api/token', true],
  ['', 'http://169.254.170.2/v2/credentials', true],
  ['', 'http://[fd00:ec2::254]/latest/api/token', true],
  ['', 'http://metadata.google.internal/computeMetadata/v1', true],
  ['', 'http://metadata.google.internal./computeMetadata/v1', true],
  ['', 'http://localhost.example/v1', false],
  ['', 'http://128.0.0.1/v1', false],
  ['', 'http://10.0.0.1/v1', false],
  ['', 'http://host.docker.internal:11434/v1', false],
]

for (const [list, url, isDirect] of excluded)
  test(`proxy rules: NO_PROXY ${JSON.stringify(list)} ${isDirect ? 'excludes' : 'does not exclude'} ${url}`, () => {
    const env = { HTTPS_PROXY: 'http://p:1', HTTP_PROXY: 'http://p:1' }
    for (const name of ['NO_PROXY', 'no_proxy'])
      assert.equal(routeOf({ ...env, [name]: list }, url) === 'direct', isDirect, name)
  })

test('proxy rules: the list in lower case counts', () => {
  const env = { HTTPS_PROXY: 'http://p:1', no_proxy: 'a.example', NO_PROXY: '*' }
  assert.equal(routeOf(env, OPENAI), 'p:1 HTTPS_PROXY')
})

const credentials = [
  ['http://user:pass@p:1', 'user:pass'],
  ['http://user@p:1', 'user:'],
  ['http://:pass@p:1', ':pass'],
  ['http://us%40er:p%3Ass%2F@p:1', 'us@er:p:ss/'],
  ['http://user:pä%C3%A4@p:1', 'user:pää'],
  ['http://user:100%@p:1', 'user:100%'],
  ['http://user:a:b@c@p:1', 'user:a:b@c'],
  ['http://CORP\\user:#1?/x@p:1', 'CORP\\user:#1?/x'],
] as const
for (const [address, expected] of credentials)
  test(`proxy rules: credentials of ${address}`, () => {
    const { rules } = rulesOf({ HTTPS_PROXY: address })
    const value = rules.https?.authorization?.reveal() ?? ''
    assert.equal(new TextDecoder().decode(Uint8Array.from(atob(value.slice(6)), (c) => c.charCodeAt(0))), expected)
    assert.equal(JSON.stringify(rules).includes(value.slice(6)), false)
  })
for (const address of ['http://p:1', 'http://@p:1'])
  test(`proxy rules: ${address} has no credentials`, () =>
    assert.equal(rulesOf({ HTTPS_PROXY: address }).rules.https?.authorization, null))

const refused = [
  ['socks5://p:1080', /SOCKS.*privoxy/],
  ['socks5h://user:secret-pw@p:1080', /SOCKS.*privoxy/],
  ['socks://p', /SOCKS/],
  ['pac+https://wpad.corp/proxy.pac', /PAC.*px or alpaca/],
  ['http://wpad.corp/wpad.dat', /PAC/],
  ['ftp://p:1', /scheme "ftp"/],
  ['http://', /"http:\/\/"/],
  ['http://p:port', /"http:\/\/p:port"/],
  ['http://p:0', /such as http:\/\/proxy\.example:3128/],
  ['http://user:secret-pw@p:port', /an address that is not valid/],
  ['http://user:secret-pw@', /an address that is not valid/],
] as const
for (const [address, words] of refused)
  test(`proxy rules: ${address} is refused`, () => {
    const { problems } = rulesOf({ HTTPS_PROXY: address })
    assert.equal(problems.length, 1)
    const text = `${problems[0]?.where} ${problems[0]?.found} ${problems[0]?.allowed}`
    assert.match(text, /^HTTPS_PROXY /)
    assert.match(text, words)
    assert.doesNotMatch(text, /secret-pw/)
  })

test('proxy rules: a SOCKS proxy for both schemes is one problem', () =>
  assert.equal(rulesOf({ ALL_PROXY: 'socks5://p:1' }).problems.length, 1))

test('proxy rules: a SOCKS proxy in ALL_PROXY beside HTTPS_PROXY is named, and the gateway starts', () => {
  const env = { ALL_PROXY: 'socks://127.0.0.1:7892', HTTPS_PROXY: 'http://127.0.0.1:7892' }
  const { problems, warnings, rules } = rulesOf(env)
  assert.deepEqual(problems, [])
  assert.match(
    warnings.join(),
    /^ALL_PROXY is the address of a SOCKS proxy, and not used: http addresses are reached dir/,
  )
  assert.deepEqual([rules.https?.name, rules.http], ['127.0.0.1:7892', null])
})

test('proxy rules: entries that match no host are named', () => {
  const { warnings } = rulesOf({ HTTPS_PROXY: 'http://p:1', NO_PROXY: 'a.example,192.168.*,10.0.0.0/33,<local>' })
  assert.equal(warnings.length, 3)
  assert.match(warnings[0] ?? '', /^NO_PROXY: the entry "192\.168\.\*" matches no host/)
  assert.deepEqual(rulesOf({ NO_PROXY: '192.168.*' }).warnings, [])
})
