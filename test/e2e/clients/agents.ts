/**
 * Coding agents that run once and end. `npm run clients` installs them into `.cache/clients`; nothing of them is committed.
 * Telemetry and updates are off, so that they call nothing but the gateway.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Started } from '../support/process.ts'

/** Where the agents are installed. */
export const AGENTS_FOLDER = join(import.meta.dirname, '..', '..', '..', '.cache', 'clients', 'node_modules')

export const AGENT_PACKAGES = {
  '@openai/codex': '0.169.0',
  '@anthropic-ai/claude-code': '2.1.330',
  'opencode-ai': '1.18.33',
  '@google/gemini-cli': '0.61.0',
} as const

/** `home` and `work`: folders of this run alone. */
type AgentTask = {
  readonly gateway: Pick<Started, 'url' | 'base'>
  readonly home: string
  readonly work: string
  readonly model: string
  readonly prompt: string
}
/** `files`: below `home`. */
type AgentCommand = {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
}
/** `program`: its path below `AGENTS_FOLDER`; it runs with Node, or by itself if it has no file extension. */
export type Agent = {
  readonly name: string
  readonly program: string
  readonly command: (task: AgentTask) => AgentCommand
}

/** `provider`: lines of its configuration. */
export const codex = (name: string, provider: (base: string) => readonly string[]): Agent => ({
  name,
  program: join('@openai', 'codex', 'bin', 'codex.js'),
  command: ({ gateway, home, work, model, prompt }) => ({
    args: ['exec', '--skip-git-repo-check', '--sandbox', 'danger-full-access', '--cd', work, '--model', model, prompt],
    env: { CODEX_HOME: join(home, '.codex'), GATEWAY_API_KEY: 'any', CODEX_API_KEY: 'any' },
    files: {
      '.codex/config.toml': [
        ...provider(gateway.base),
        'check_for_update_on_startup = false',
        '[analytics]',
        'enabled = false',
      ].join('\n'),
    },
  }),
})

/** `address`: the variables by which it finds the gateway. */
const claudeCodeBy = (name: string, address: (url: string) => Readonly<Record<string, string>>): Agent => ({
  name,
  program: join('@anthropic-ai', 'claude-code', 'cli-wrapper.cjs'),
  command: ({ gateway, home, model, prompt }) => ({
    args: ['-p', prompt, '--model', model, '--allowedTools', 'Bash(echo:*)', '--output-format', 'text'],
    env: {
      CLAUDE_CONFIG_DIR: join(home, '.claude'),
      ...address(gateway.url),
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
      DISABLE_AUTOUPDATER: '1',
    },
  }),
})

export const claudeCode = claudeCodeBy('claude code', (url) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'any' }))

/** As if the gateway were Bedrock. */
export const claudeCodeAtBedrock = claudeCodeBy('claude code, as Bedrock', (url) => ({
  CLAUDE_CODE_USE_BEDROCK: '1',
  ANTHROPIC_BEDROCK_BASE_URL: `${url}/bedrock`,
  AWS_BEARER_TOKEN_BEDROCK: 'any',
  AWS_REGION: 'us-east-1',
}))

/** As if it were Vertex AI. */
export const claudeCodeAtVertex = claudeCodeBy('claude code, as Vertex', (url) => ({
  CLAUDE_CODE_USE_VERTEX: '1',
  ANTHROPIC_VERTEX_BASE_URL: `${url}/vertex/v1`,
  CLAUDE_CODE_SKIP_VERTEX_AUTH: '1',
  ANTHROPIC_AUTH_TOKEN: 'any',
  ANTHROPIC_VERTEX_PROJECT_ID: 'p-1',
  CLOUD_ML_REGION: 'global',
}))

export const opencode: Agent = {
  name: 'opencode',
  program: join(`opencode-${process.platform}-${process.arch}`, 'bin', 'opencode'),
  command: ({ gateway, home, model, prompt }) => ({
    args: ['run', '--model', `gateway/${model}`, prompt],
    env: {
      XDG_CONFIG_HOME: join(home, '.config'),
      XDG_DATA_HOME: join(home, '.data'),
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    },
    files: {
      '.config/opencode/opencode.json': JSON.stringify({
        autoupdate: false,
        share: 'disabled',
        // A request of its own, for the title of the session.
        agent: { title: { disable: true } },
        provider: {
          gateway: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: gateway.base, apiKey: 'any' },
            models: { [model]: { name: model } },
          },
        },
      }),
    },
  }),
}

export const geminiCli: Agent = {
  name: 'gemini-cli',
  program: join('@google', 'gemini-cli', 'bundle', 'gemini.js'),
  command: ({ gateway, home, model, prompt }) => ({
    args: ['-p', prompt, '-m', model, '--approval-mode', 'yolo', '--skip-trust'],
    env: {
      GEMINI_CLI_HOME: home,
      GOOGLE_GEMINI_BASE_URL: gateway.url,
      GEMINI_API_KEY: 'any',
      GEMINI_TELEMETRY_ENABLED: 'false',
      GEMINI_CLI_NO_RELAUNCH: 'true',
    },
    files: {
      '.gemini/settings.json': JSON.stringify({
        security: { auth: { selectedType: 'gemini-api-key' } },
        privacy: { usageStatisticsEnabled: false },
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
      }),
    },
  }),
}

type AgentEnd = { readonly code: number | null; readonly out: string; readonly ms: number }

/**
 * Runs an agent in a process group of its own, for at most `limit` ms; no process of it is left afterwards. `env`: in
 * addition to its own, such as a proxy.
 */
export const runAgent = (
  agent: Agent,
  task: AgentTask,
  { limit, env: more = {} }: { readonly limit: number; readonly env?: Readonly<Record<string, string>> },
): Promise<AgentEnd> => {
  const { args, env, files = {} } = agent.command(task)
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(task.home, name)), { recursive: true })
    writeFileSync(join(task.home, name), content)
  }
  const path = join(AGENTS_FOLDER, agent.program)
  const [program, ...first] = /\.\w+$/.test(path) ? [process.execPath, path] : [path]
  return new Promise((resolve, reject) => {
    const begun = performance.now()
    const child = spawn(program ?? '', [...first, ...args], {
      cwd: task.work,
      env: { PATH: process.env.PATH ?? '', HOME: task.home, ...more, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const parts: Buffer[] = []
    child.stdout.on('data', (part: Buffer) => parts.push(part))
    child.stderr.on('data', (part: Buffer) => parts.push(part))
    const endGroup = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // The group has already ended.
      }
    }
    const timer = setTimeout(endGroup, limit)
    child.on('error', reject)
    child.on('close', (code) => {
      clearTimeout(timer)
      endGroup()
      resolve({ code, out: Buffer.concat(parts).toString('utf8'), ms: performance.now() - begun })
    })
    child.on('exit', () => setTimeout(endGroup, 1_000).unref())
  })
}
