/**
 * Checks the runtime packages with npm's registry: known vulnerabilities (high or critical) and package signatures. Fails
 * on a finding. A check that the registry cannot answer is reported and does not fail.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { type JsonObject, list, object, parseObject, text } from '../src/core/json.ts'

const CHECKS = [
  { about: 'known vulnerabilities', args: ['audit', '--omit=dev', '--audit-level=high', '--json'] },
  { about: 'signatures', args: ['audit', 'signatures', '--json'] },
] as const

type Run = { readonly status: number | null; readonly stdout: string; readonly stderr: string }
/** `unknown`: the registry did not answer the check. */
type Verdict = { readonly result: 'passed' | 'failed' | 'unknown'; readonly reason: string }

/** The result of `npm audit --json`. */
export const verdict = ({ status, stdout, stderr }: Run): Verdict => {
  const report = parseObject(stdout)
  const first = stderr.split('\n').find((line) => /^npm (?:error|ERR!|warn audit)/.test(line)) ?? 'no answer'
  if (report === undefined || report.error !== undefined || report.message !== undefined)
    return { result: 'unknown', reason: text(object(report?.error)?.summary) || text(report?.message) || first }
  const tampered = [...objects(report.invalid), ...objects(report.missing)].map(
    ({ name, version }) => `${name}@${version}`,
  )
  if (tampered.length > 0) return { result: 'failed', reason: `missing or invalid signature: ${tampered.join(', ')}` }
  if (status === 0) return { result: 'passed', reason: '' }
  if (report.metadata === undefined) return { result: 'unknown', reason: first }
  const found = objects(Object.values(object(report.vulnerabilities) ?? {})).filter(
    ({ severity }) => severity === 'high' || severity === 'critical',
  )
  return {
    result: 'failed',
    reason: found.map(({ name, severity, range }) => `${name} ${range} (${severity})`).join(', '),
  }
}

const objects = (value: unknown): readonly JsonObject[] =>
  list(value).flatMap((one) => {
    const found = object(one)
    return found ? [found] : []
  })

const MESSAGES = {
  passed: (about: string) => `✓ ${about}: nothing found`,
  failed: (about: string, reason: string) => `✗ ${about}: ${reason}`,
  unknown: (about: string, reason: string) => `- ${about}: not checked, the registry did not answer (${reason})`,
} as const satisfies Record<Verdict['result'], (about: string, reason: string) => string>

if (process.argv[1] === import.meta.filename) {
  const results = CHECKS.map(({ about, args }) => {
    const { status, stdout, stderr } = spawnSync('npm', args, {
      cwd: join(import.meta.dirname, '..'),
      encoding: 'utf8',
      timeout: 120_000,
      shell: process.platform === 'win32',
    })
    const { result, reason } = verdict({ status, stdout, stderr })
    process.stdout.write(`${MESSAGES[result](about, reason)}\n`)
    return result
  })
  process.exit(results.includes('failed') ? 1 : 0)
}
