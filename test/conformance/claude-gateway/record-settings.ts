/**
 * Records what the reference makes of 200 random sets of policies: `node test/conformance/claude-gateway/record-settings.ts`. Writes
 * `data/settings.json`, with which `src/policy/claude/managed-settings.test.ts` compares.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beginDevice, pollDevice, refreshTokens } from '../../support/device-flow.ts'
import { approveAtReference, startReference } from './reference.ts'

/** A random number generator with a seed (mulberry32), so that a second recording is comparable. */
const randomFrom = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}
const random = randomFrom(20261128)
const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
const some = <T>(of: readonly T[]): T[] => of.filter(() => random() < 0.5)

const RULES = ['WebFetch', 'Bash(rm:*)', 'Bash(curl:*)', 'Read(./.env)', 'Edit']
const hook = (name: string) => ({ matcher: name, hooks: [{ type: 'command', command: `echo ${name}` }] })
const MEMBERS: { readonly [name: string]: () => unknown } = {
  env: () => Object.fromEntries(some(['A', 'B', 'Ü', '10', '9', 'z']).map((name) => [name, one(['1', '2', 'é'])])),
  permissions: () => ({
    ...(random() < 0.7 && { deny: some(RULES) }),
    ...(random() < 0.5 && { ask: some(RULES) }),
    ...(random() < 0.5 && { allow: some(RULES) }),
    ...(random() < 0.3 && { defaultMode: one(['default', 'plan', 'acceptEdits']) }),
  }),
  hooks: () => Object.fromEntries(some(['PreToolUse', 'Stop']).map((name) => [name, some(['Bash', 'Edit']).map(hook)])),
  deniedModels: () => some(['claude-opus-4-6', 'claude-haiku-4-5']),
  disabledMcpjsonServers: () => some(['one', 'two']),
  deniedMcpServers: () => some(['one', 'two']).map((serverName) => ({ serverName })),
  modelOverrides: () =>
    Object.fromEntries(some(['claude-opus-4-6', 'claude-sonnet-4-5']).map((name) => [name, one(['x', 'y'])])),
  model: () => one(['opus', 'sonnet']),
  cleanupPeriodDays: () => one([7, 30]),
  includeCoAuthoredBy: () => one([true, false]),
  companyAnnouncements: () => some(['Hello', 'Wörld', '日本']),
}
const settings = () =>
  Object.fromEntries(Object.entries(MEMBERS).flatMap(([name, make]) => (random() < 0.45 ? [[name, make()]] : [])))

type Recorded = { readonly checksum: string; readonly settings: object }

const SETS = 4
const EACH = 50
const sets = []
for (let set = 0; set < SETS; set++) {
  const base = settings()
  const policies = Array.from({ length: EACH }, settings)
  const forward = set === SETS - 1 ? [{ url: 'http://127.0.0.1:9', metrics: true, logs: false, traces: true }] : []
  await using reference = await startReference({
    telemetry: { forward_to: forward },
    managed: {
      policies: [
        ...policies.map((cli, index) => ({ match: { groups: [`g${index}`] }, cli })),
        { match: {}, cli: base },
      ],
    },
  })
  const { url, issuer } = reference
  issuer.people.set('ann', { email: 'ann@corp.example', email_verified: true, groups: ['g0'] })
  issuer.signedIn = 'ann'
  const { device_code, user_code } = await beginDevice(url)
  await approveAtReference(url, user_code)
  let { body: tokens } = await pollDevice(url, device_code)
  const received = []
  for (let index = 0; index < EACH; index++) {
    issuer.people.set('ann', { email: 'ann@corp.example', email_verified: true, groups: [`g${index}`] })
    ;({ body: tokens } = await refreshTokens(url, tokens.refresh_token))
    const answer = await fetch(`${url}/managed/settings`, {
      headers: { authorization: `Bearer ${tokens.access_token}` },
    })
    const { checksum, settings } = (await answer.json()) as Recorded
    received.push({ checksum, settings })
  }
  sets.push({ address: url, telemetry: forward.length > 0, base, policies, received })
}
const source = 'claude gateway of @anthropic-ai/claude-code-linux-x64 2.1.328, recorded 2026-11-28'
writeFileSync(join(import.meta.dirname, 'data', 'settings.json'), `${JSON.stringify({ source, sets })}\n`)
