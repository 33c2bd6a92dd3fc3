/** Records the answers of the reference: `node test/conformance/claude-gateway/record-probe.ts` writes `data/probe.json`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { answerWith } from '../../support/answers.ts'
import { submit } from '../../support/device-flow.ts'
import { TestBrowser } from '../../support/identity-provider.ts'
import { startUpstream } from '../../support/upstream.ts'
import { probe } from './probe.ts'
import { approveAtReference, startReference } from './reference.ts'

const upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 1, output: 1 }))
const managed = { policies: [{ match: {}, cli: { permissions: { deny: ['WebFetch'] } } }] }
const reference = await startReference({ managed }, upstream.url)
const { url, issuer } = reference
issuer.people.set('ann', { email: 'ann@corp.example', email_verified: true, name: 'Ann', groups: ['devs'] })
issuer.signedIn = 'ann'
const rows = await probe({
  url,
  model: 'claude-sonnet-4-5-20250929',
  approve: (code) => approveAtReference(url, code),
  deny: (user_code) => submit(new TestBrowser(), `${url}/device/deny`, { user_code }),
})
const source = 'claude gateway of @anthropic-ai/claude-code-linux-x64 2.1.328, recorded 2026-11-28'
writeFileSync(join(import.meta.dirname, 'data', 'probe.json'), `${JSON.stringify({ source, rows }, null, 1)}\n`)
await reference[Symbol.asyncDispose]()
await upstream.close()
