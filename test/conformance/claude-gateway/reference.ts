/**
 * Anthropic's own gateway of the protocol, for comparison: `claude gateway` of the npm package `@anthropic-ai/claude-code-linux-x64`. It needs
 * Postgres and an OpenID provider. `npm run clients` installs the package into `.cache/clients`.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { AGENTS_FOLDER } from '../../e2e/clients/agents.ts'
import { submit } from '../../support/device-flow.ts'
import { type IdentityProviderFixture, startIdentityProvider, TestBrowser } from '../../support/identity-provider.ts'
import { freePorts } from '../../support/ports.ts'
import { startPostgres } from '../../support/postgres.ts'

export const CLAUDE_PROGRAM =
  process.env.CLAUDE_PROGRAM ??
  join(AGENTS_FOLDER, '@anthropic-ai', `claude-code-${process.platform}-${process.arch}`, 'claude')

export const isReferenceInstalled = existsSync(CLAUDE_PROGRAM)

export type Reference = {
  readonly url: string
  readonly issuer: IdentityProviderFixture
  readonly output: () => string
  [Symbol.asyncDispose](): Promise<void>
}

/** `more`: sections of its configuration. */
export const startReference = async (more: object, upstream = 'http://127.0.0.1:9'): Promise<Reference> => {
  const [port = 0, own = 0] = await freePorts(2)
  const url = `http://127.0.0.1:${port}`
  const [postgres, issuer] = await Promise.all([startPostgres(), startIdentityProvider(url, own)])
  const folder = mkdtempSync(join(tmpdir(), 'headgate-reference-'))
  const file = join(folder, 'gateway.yaml')
  const config = {
    listen: { host: '127.0.0.1', port, public_url: url },
    oidc: {
      issuer: issuer.issuer,
      client_id: issuer.clientId,
      client_secret: issuer.clientSecret,
      groups_claim: 'groups',
      scopes: ['openid', 'email', 'profile', 'groups', 'offline_access'],
    },
    session: { jwt_secret: 'a-secret-of-the-reference-0123456789', ttl_hours: 1 },
    store: { postgres_url: postgres.url },
    upstreams: [{ provider: 'anthropic', base_url: upstream, auth: { api_key: 'sk-ant-test' } }],
    ...more,
  }
  writeFileSync(file, stringify(config))
  const child = spawn(CLAUDE_PROGRAM, ['gateway', '--config', file], {
    env: { PATH: process.env.PATH ?? '', HOME: folder, CLAUDE_GATEWAY_ALLOW_LOOPBACK: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (output += part))
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()))
  const stop = async () => {
    child.kill('SIGKILL')
    await ended
    await Promise.all([issuer.stop(), postgres.remove()])
    rmSync(folder, { recursive: true, force: true })
  }
  for (const end = performance.now() + 60_000; !output.includes('claude gateway listening'); ) {
    if (performance.now() > end || child.exitCode !== null) {
      await stop()
      throw new Error(`the reference did not start: ${output.slice(-2_000)}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return { url, issuer, output: () => output, [Symbol.asyncDispose]: stop }
}

/** Types a code at its page, and signs in. Its page asks no further question. */
export const approveAtReference = async (url: string, code: string): Promise<void> => {
  const browser = new TestBrowser()
  const { headers, status, text } = await submit(browser, `${url}/device`, { user_code: code })
  if (headers.location === undefined) throw new Error(`the code was refused: ${status} ${text.slice(-300)}`)
  await browser.open(headers.location)
}
