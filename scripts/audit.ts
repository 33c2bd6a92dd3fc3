/**
 * Asks the registry what is known against the packages we run with, and whether what is installed is what their makers
 * signed. Fails on what it is told; a registry that does not answer such questions is named, and fails nothing.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { type JsonObject, list, object, parseObject, text } from '../src/core/json.ts'

const QUESTIONS = [
  { about: 'known vulnerabilities', args: ['audit', '--omit=dev', '--audit-level=high', '--json'] },
  { about: 'signatures', args: ['audit', 'signatures', '--json'] },
] as const

type Run = { readonly status: number | null; readonly stdout: string; readonly stderr: string }
/** `silent`: it got no answer to judge by. */
type Verdict = { readonly is: 'good' | 'bad' | 'silent'; readonly why: string }

/** What `npm audit --json` has said. */
export const verdict = ({ status, stdout, stderr }: Run): Verdict => {
  const said = parseObject(stdout)
  const first = stderr.split('\n').find((line) => /^npm (?:error|ERR!|warn audit)/.test(line)) ?? 'no answer'
  if (said === undefined || said.error !== undefined || said.message !== undefined)
    return { is: 'silent', why: text(object(said?.error)?.summary) || text(said?.message) || first }
  const tampered = [...objects(said.invalid), ...objects(said.missing)].map(({ name, version }) => `${name}@${version}`)
  if (tampered.length > 0) return { is: 'bad', why: `not signed as it should be: ${tampered.join(', ')}` }
  if (status === 0) return { is: 'good', why: '' }
  if (said.metadata === undefined) return { is: 'silent', why: first }
  const found = objects(Object.values(object(said.vulnerabilities) ?? {})).filter(
    ({ severity }) => severity === 'high' || severity === 'critical',
  )
  return { is: 'bad', why: found.map(({ name, severity, range }) => `${name} ${range} (${severity})`).join(', ') }
}

const objects = (value: unknown): readonly JsonObject[] =>
  list(value).flatMap((one) => {
    const found = object(one)
    return found ? [found] : []
  })

const WORDS = {
  good: (about: string) => `✓ ${about}: nothing found`,
  bad: (about: string, why: string) => `✗ ${about}: ${why}`,
  silent: (about: string, why: string) => `- ${about}: not checked, the registry did not answer (${why})`,
} as const satisfies Record<Verdict['is'], (about: string, why: string) => string>

if (process.argv[1] === import.meta.filename) {
  const found = QUESTIONS.map(({ about, args }) => {
    const { status, stdout, stderr } = spawnSync('npm', args, {
      cwd: join(import.meta.dirname, '..'),
      encoding: 'utf8',
      timeout: 120_000,
      shell: process.platform === 'win32',
    })
    const { is, why } = verdict({ status, stdout, stderr })
    process.stdout.write(`${WORDS[is](about, why)}\n`)
    return is
  })
  process.exit(found.includes('bad') ? 1 : 0)
}
