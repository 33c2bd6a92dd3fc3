/** The Claude Code gateway protocol, which is loaded at its first request. */
import type { ClaudePages } from '../server/claude-pages.ts'
import { openReader } from './admin-parts.ts'
import type { Runtime } from './runtime.ts'

/** Loads it once. A load that failed is tried again. */
export const claudePages = (runtime: Runtime): (() => Promise<ClaudePages>) => {
  let loading: Promise<ClaudePages> | null = null
  return () => {
    loading ??= open(runtime).catch((error) => {
      loading = null
      throw error
    })
    return loading
  }
}

const open = async (runtime: Runtime): Promise<ClaudePages> => {
  const { current, gateway, home, log, metrics, version } = runtime
  const { openClaude } = await import('../server/admin/claude/claude.ts')
  return openClaude({
    version,
    settings: () => current.config.claude,
    sso: () => current.config.sso,
    gateway,
    usage: () => openReader(runtime),
    page: new URL('docs/clients/claude-gateway.md', home),
    relay: {
      count: (signal, result) => metrics.relayed(signal, result),
      onState(receiver, problem) {
        if (problem === null) return log.info('claude', { message: `The receiver ${receiver} takes telemetry again.` })
        const message = `The receiver ${receiver} does not take telemetry (${problem}). What clients send is dropped for 30 s, then it is tried again.`
        log.warn('claude', { message })
      },
    },
  })
}
