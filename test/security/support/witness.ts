/** Sends requests to a gateway and records all its output, to be searched for secrets. */
import assert from 'node:assert/strict'
import { basename } from 'node:path'
import type { Started } from '../../e2e/support/process.ts'
import { type Canary, filesBelow, searchFor } from './canaries.ts'

export type WitnessedResponse = { readonly status: number; readonly headers: Headers; readonly text: string }

export type Witness = {
  ask(path: string, init?: RequestInit): Promise<WitnessedResponse>
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<WitnessedResponse>
  /** Adds output received by other means than `ask`. */
  note(where: string, text: string): void
  /**
   * Also reads every page, the log and the files, and fails if any output contains a canary. `but`: files that may
   * contain them.
   */
  assertClean(canaries: readonly Canary[], but?: (path: string) => boolean): Promise<void>
}

const PAGES = [
  '/health',
  '/health/live',
  '/health/ready',
  '/providers/status',
  '/metrics',
  '/openapi.json',
  '/v1/models',
  '/nowhere',
] as const

/** The operator wrote `headgate.yaml` and `.env`. */
const isConfiguration = (path: string): boolean => /^(?:headgate\.ya?ml|\.env)$/.test(basename(path))

export const witness = (gateway: Started, headers: Readonly<Record<string, string>> = {}): Witness => {
  const outputs: { readonly where: string; readonly text: string }[] = []
  const ask = async (path: string, init: RequestInit = {}): Promise<WitnessedResponse> => {
    const response = await fetch(gateway.url + path, {
      redirect: 'manual',
      signal: AbortSignal.timeout(120_000),
      ...init,
      headers: { ...headers, ...(init.headers as Record<string, string> | undefined) },
    })
    const text = await response.text()
    const head = [response.statusText, ...response.headers].join('\n')
    outputs.push({ where: `${init.method ?? 'GET'} ${path} ${response.status}`, text: `${head}\n${text}` })
    return { status: response.status, headers: response.headers, text }
  }
  return {
    ask,
    post: (path, body, more = {}) =>
      ask(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...more },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    note: (where, text) => void outputs.push({ where, text }),
    async assertClean(canaries, but = () => false) {
      const search = searchFor(canaries)
      for (const page of PAGES) await ask(page)
      await ask('/v1/route', { method: 'POST', body: '{"model":"x","messages":[{"role":"user","content":"x"}]}' })
      await gateway.logged()
      const files = filesBelow(gateway.folder).filter(({ path }) => !isConfiguration(path) && !but(path))
      const places = [
        ...outputs,
        { where: 'the log', text: gateway.output() },
        ...files.map(({ path, text }) => ({ where: path, text })),
      ]
      for (const { where, text } of places) assert.deepEqual(search(text), [], where)
    },
  }
}
