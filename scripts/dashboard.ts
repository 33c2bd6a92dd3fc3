/**
 * Work on the dashboard: `npm run dashboard`. Runs the gateway with its demo provider and some traffic. The gateway builds the
 * pages when they are opened after a change, so reloading the page is enough. `--quiet` makes no traffic; variables of the
 * gateway apply, such as PORT. `--teams` starts it with the data of a company in a temporary folder: fifty teams, ten budgets,
 * a week of requests, and a few more each second.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ADMIN, startCompany } from '../test/dashboard/support/company.ts'

const { values } = parseArgs({
  options: { quiet: { type: 'boolean', default: false }, teams: { type: 'boolean', default: false } },
})
const port = process.env.PORT ?? '3000'
const url = `http://127.0.0.1:${port}`

/** ms between two requests. */
const INTERVAL = 700
const MODELS = ['demo/echo', 'demo/echo', 'demo/chain', 'demo/chain', 'demo/echoo']

const ask = async (model: string): Promise<void> => {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream: Math.random() < 0.5, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    await response.arrayBuffer()
  } catch {
    // The gateway is starting, or has ended.
  }
}

const runDemo = () => {
  const gateway = spawn(process.execPath, [join(import.meta.dirname, '..', 'bin', 'headgate.mjs')], {
    stdio: 'inherit',
    env: { ...process.env, PORT: port },
  })
  gateway.once('exit', (code) => process.exit(code ?? 1))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => gateway.kill(signal))
  if (!values.quiet)
    setInterval(() => void ask(MODELS[Math.floor(Math.random() * MODELS.length)] ?? 'demo/echo'), INTERVAL)
  process.stdout.write(`Dashboard: ${url}/dashboard/\n`)
}

const runCompany = async () => {
  const company = await startCompany({ live: !values.quiet, env: { PORT: port } })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void company.close())
  process.stdout.write(`Dashboard: ${company.gateway.url}/dashboard/\nAdmin token: ${ADMIN}\n`)
}

if (values.teams) await runCompany()
else runDemo()
