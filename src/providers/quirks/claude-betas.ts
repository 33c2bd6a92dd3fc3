/**
 * The betas of Claude at clouds, as data. LITELLM is the list of BerriAI/litellm, `anthropic_beta_headers_config.json`, as of 2026-11; the
 * other sources correct it.
 */
import type { BetaRow, BetaRules } from '../../core/betas.ts'

type ClaudeCloud = 'bedrock' | 'mantle' | 'vertex'

/** `at`: where it is taken; a text: by this name. */
type Fact = Omit<BetaRow, 'as'> & {
  readonly beta: string
  readonly at: { readonly [cloud in ClaudeCloud]?: true | string }
}

const LITELLM = 'github.com/BerriAI/litellm, anthropic_beta_headers_config.json (2026-11-28)'
const EVERYWHERE = { bedrock: true, mantle: true, vertex: true } as const
const AT_AWS = { bedrock: true, mantle: true } as const
const TOOL_SEARCH = 'tool-search-tool-2025-10-19'

const FACTS: readonly Fact[] = [
  { beta: 'computer-use-2025-01-24', at: EVERYWHERE, seen: LITELLM },
  { beta: 'computer-use-2025-11-24', at: EVERYWHERE, seen: LITELLM },
  { beta: 'context-1m-2025-08-07', at: EVERYWHERE, seen: LITELLM },
  { beta: 'context-management-2025-06-27', at: EVERYWHERE, members: ['context_management'], seen: LITELLM },
  { beta: 'compact-2026-01-12', at: EVERYWHERE, seen: LITELLM },
  { beta: 'compact-2026-09-04', at: { vertex: true }, seen: LITELLM },
  { beta: 'thinking-display-updates-2026-08-18', at: EVERYWHERE, seen: LITELLM },
  { beta: 'thinking-binding-controls-2026-08-01', at: EVERYWHERE, seen: LITELLM },
  { beta: 'dangerous-tool-use-2026-09-03', at: EVERYWHERE, seen: LITELLM },
  { beta: 'per-turn-control-2026-07-01', at: { mantle: true, vertex: true }, seen: LITELLM },
  { beta: 'mid-conversation-output-config-2026-07-01', at: { bedrock: true }, seen: LITELLM },
  { beta: 'mid-conversation-tool-changes-2026-07-01', at: { bedrock: true }, seen: LITELLM },
  {
    beta: TOOL_SEARCH,
    at: EVERYWHERE,
    members: ['tools[].defer_loading'],
    seen: 'github.com/anthropics/claude-code/issues/82549 (2026-07-30)',
  },
  {
    beta: 'advanced-tool-use-2025-11-20',
    at: { bedrock: TOOL_SEARCH, mantle: TOOL_SEARCH, vertex: TOOL_SEARCH },
    seen: 'github.com/anthropics/claude-code/issues/30926 (2026-03-05)',
  },
  { beta: 'effort-2025-11-24', at: AT_AWS, seen: 'github.com/anthropics/claude-code/issues/34802 (2026-03-16)' },
  {
    beta: 'fine-grained-tool-streaming-2025-05-14',
    at: AT_AWS,
    members: ['tools[].eager_input_streaming'],
    seen: 'github.com/anthropics/claude-code/issues/63532 (2026-05-29)',
  },
  // LiteLLM withholds it from InvokeModel, but each of two tests by hand found it accepted.
  {
    beta: 'interleaved-thinking-2025-05-14',
    at: EVERYWHERE,
    seen: 'github.com/router-for-me/CLIProxyAPI/issues/4750 (2026-08-03)',
  },
  { beta: 'web-search-2025-03-05', at: { mantle: true, vertex: true }, seen: LITELLM },
  {
    beta: 'structured-outputs-2025-11-13',
    at: { mantle: true },
    members: ['output_format'],
    essential: true,
    seen: LITELLM,
  },
  { beta: 'tool-examples-2025-10-29', at: { mantle: true }, members: ['tools[].input_examples'], seen: LITELLM },
  { beta: 'output-128k-2025-02-19', at: { mantle: true }, seen: LITELLM },
  { beta: 'token-efficient-tools-2025-02-19', at: { mantle: true }, seen: LITELLM },
  // Opus 4.7 refuses it at InvokeModel, and it changes no answer.
  {
    beta: 'claude-code-20250219',
    at: { mantle: true },
    seen: 'github.com/anthropics/claude-code/issues/49648 (2026-04-17)',
  },
  {
    beta: 'prompt-caching-scope-2026-01-05',
    at: {},
    members: [
      'system[].cache_control.scope',
      'tools[].cache_control.scope',
      'messages[].content[].cache_control.scope',
    ],
    seen: 'github.com/router-for-me/CLIProxyAPI/issues/4750 (2026-08-03)',
  },
]

const rowsAt = (cloud: ClaudeCloud): BetaRules['rows'] =>
  new Map(
    FACTS.map(({ beta, at, ...row }) => {
      const taken = at[cloud] ?? null
      return [beta, { ...row, as: taken === true ? beta : taken }]
    }),
  )

/** The betas of InvokeModel, whose body lists them. */
export const BEDROCK_BETAS: BetaRules = { in: 'body', rows: rowsAt('bedrock') }
export const MANTLE_BETAS: BetaRules = { in: 'header', rows: rowsAt('mantle') }
export const VERTEX_BETAS: BetaRules = { in: 'header', rows: rowsAt('vertex') }
