import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { selfSigned } from '../../test/support/certificate.ts'
import { providers } from '../../test/support/config.ts'
import { loadConfig } from './load.ts'

const folder = await mkdtemp(join(tmpdir(), 'headgate-egress-'))
after(() => rm(folder, { recursive: true, force: true }))
const [one, two] = [selfSigned(), selfSigned()]
for (const [name, text] of [
  ['one.pem', one.cert],
  ['one.key', one.key],
  ['two.pem', two.cert],
  ['no.pem', 'no certificate'],
] as const)
  await writeFile(join(folder, name), text)

const load = async (yaml: string, env: { readonly [name: string]: string } = {}) => {
  await writeFile(join(folder, 'headgate.yaml'), yaml)
  return loadConfig({ env: { OPENAI_API_KEY: 'k', ...env }, folder, providers })
}
const valid = async (...input: Parameters<typeof load>) => {
  const loaded = await load(...input)
  assert.ok(loaded.ok, JSON.stringify(loaded))
  return { network: loaded.config.network, openai: loaded.config.instances.find(({ id }) => id === 'openai'), loaded }
}

const FAR = new URL('https://api.openai.com/v1')

test('egress: the setting, the variable of a provider, and its entry, in this order', async () => {
  const env = { HTTPS_PROXY: 'http://env:1', NO_PROXY: 'api.openai.example' }
  const nothing = await valid('{}', env)
  assert.equal(nothing.network.proxyFor(new URL('https://other.example'))?.name, 'env:1')
  assert.deepEqual([nothing.openai?.proxy, nothing.openai?.egress], [undefined, undefined])
  const stated = await valid('network: { proxy: "http://set:2", noProxy: [.corp] }', { HTTPS_PROXY: 'http://env:1' })
  assert.equal(stated.openai?.proxy, 'set:2')
  assert.equal(stated.network.proxyFor(new URL('https://llm.corp')), null)
  // The address of one provider counts whatever the lists have.
  const own = await valid('providers: { openai: { proxy: "http://u:secret-pw@own:3" } }', env)
  assert.equal(own.openai?.proxy, 'own:3')
  assert.equal(own.openai?.egress?.proxyFor(FAR)?.variable, 'headgate.yaml:1:31')
  assert.doesNotMatch(JSON.stringify(own.loaded), /secret-pw/)
  const variable = await valid('providers: { openai: { proxy: "http://own:3" } }', { OPENAI_PROXY: 'http://var:4' })
  assert.equal(variable.openai?.egress?.proxyFor(FAR)?.variable, 'OPENAI_PROXY')
  const none = await valid('providers: { openai: { proxy: none } }', { HTTPS_PROXY: 'http://env:1' })
  assert.deepEqual([none.openai?.proxy, none.openai?.egress?.proxies], [undefined, []])
  const back = await valid('{ network: { proxy: none }, providers: { openai: { proxy: env } } }', {
    HTTPS_PROXY: 'http://env:1',
  })
  assert.equal(back.openai?.proxy, 'env:1')
})

test('egress: certificates of network and provider are joined, and replaced on request', async () => {
  const both = await valid('{ network: { ca: [one.pem] }, providers: { openai: { ca: two.pem } } }')
  assert.equal(both.network.tls.ca.trim(), one.cert.trim())
  assert.equal(both.openai?.egress?.tls.ca.replaceAll('\n', ''), (one.cert + two.cert).replaceAll('\n', ''))
  const only = await valid('{ network: { ca: [one.pem] }, providers: { openai: { ca: [two.pem], caOnly: true } } }')
  assert.deepEqual([only.openai?.egress?.tls.ca.trim(), only.openai?.egress?.tls.caOnly], [two.cert.trim(), true])
  const variables = await valid('{}', { NETWORK_CA: join(folder, 'one.pem'), OPENAI_CA: 'two.pem' })
  assert.match(variables.openai?.egress?.tls.ca ?? '', /BEGIN CERTIFICATE[\s\S]+BEGIN CERTIFICATE/)
  const shown = await valid(
    'providers: { openai: { clientCert: { cert: one.pem, key: one.key }, serverName: llm.internal } }',
  )
  assert.equal(shown.openai?.egress?.tls.client?.key.reveal().trim(), one.key.trim())
  assert.equal(shown.openai?.egress?.tls.serverName, 'llm.internal')
  assert.doesNotMatch(JSON.stringify(shown.loaded), /PRIVATE KEY/)
})

test('egress: the authorities of this system are accepted as a file', {
  skip: process.platform !== 'linux',
}, async () => {
  const bundle = '/etc/ssl/certs/ca-certificates.crt'
  const known = await readFile(bundle, 'utf8').catch(() => null)
  if (known === null) return
  const { network } = await valid(`network: { ca: [${bundle}], caOnly: true }`)
  assert.ok(network.tls.ca.length > 100_000)
})

const REFUSED: readonly (readonly [yaml: string, env: { readonly [name: string]: string }, problem: RegExp])[] = [
  ['network: { ca: [absent.pem] }', {}, /headgate\.yaml:1:\d+: .*"absent\.pem", which does not exist/],
  ['network: { ca: [no.pem] }', {}, /"no\.pem"; allowed: a file with certificates in PEM/],
  ['{}', { OPENAI_CA: 'absent.pem' }, /OPENAI_CA: found "absent\.pem", which does not exist/],
  ['network: { proxy: "socks5://u:secret-pw@p:1" }', {}, /SOCKS/],
  ['{}', { NETWORK_PROXY: 'socks5://u:secret-pw@p:1' }, /NETWORK_PROXY: found the address of a SOCKS proxy/],
  ['providers: { openai: { proxy: "ftp://p" } }', {}, /scheme "ftp"/],
  [
    'providers: { openai: { baseUrl: "http://127.0.0.1:9/v1", proxy: "http://p:1" } }',
    {},
    /a proxy for 127\.0\.0\.1:9, which is reached directly/,
  ],
  [
    'providers: { openai: { clientCert: { cert: one.pem, key: two.pem } } }',
    {},
    /"two\.pem"; allowed: a file with the key of the certificate/,
  ],
  ['providers: { openai: { clientCert: { cert: two.pem, key: one.key } } }', {}, /"one\.key"/],
  ['providers: { openai: { serverName: "https://llm" } }', {}, /allowed: a host name/],
  ['providers: { openai: { caOnly: true } }', {}, /caOnly without ca/],
]
for (const [yaml, env, problem] of REFUSED)
  test(`egress: ${yaml} ${Object.keys(env).join()} is refused`, async () => {
    const loaded = await load(yaml, env)
    assert.ok(!loaded.ok)
    const text = loaded.problems
      .map(({ where, found, allowed }) => `${where}: found ${found}; allowed: ${allowed}`)
      .join('\n')
    assert.match(text, problem)
    assert.doesNotMatch(text, /secret-pw/)
  })

test('egress: calls share connections while nothing changes, and no longer after', async () => {
  const [first, again] = [await valid('network: { ca: [one.pem] }'), await valid('network: { ca: [one.pem] }')]
  assert.equal(first.network.id, again.network.id)
  const passwords = await Promise.all(
    ['a', 'b'].map(async (password) => (await valid('{}', { HTTPS_PROXY: `http://u:${password}@p:1` })).network.id),
  )
  assert.notEqual(passwords[0], passwords[1])
})

test('egress: what has no effect is named', async () => {
  const { loaded } = await valid('network: { caOnly: true, noProxy: ["10.0.0.*"], proxy: "http://p:1" }', {
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
  })
  const text = loaded.warnings.join('\n')
  assert.match(text, /NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect/)
  assert.match(text, /network\.caOnly .* has no effect without network\.ca/)
  assert.match(text, /network\.noProxy: the entry "10\.0\.0\.\*" matches no host/)
})
