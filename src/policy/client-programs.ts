/** The programs of clients, recognised by their User-Agent. */

/** `version`: null if it sends none. */
export type ClientProgram = { readonly family: string; readonly version: string | null }

/** Kinds of programs, and the beginning of their User-Agent. The first match counts. */
const FAMILIES: readonly { readonly family: string; readonly pattern: RegExp }[] = [
  { family: 'claude-code', pattern: /^claude-(?:cli|code)\/([0-9.]+)?/i },
  { family: 'codex', pattern: /^codex[\w-]*\/([0-9.]+)?/i },
  { family: 'opencode', pattern: /^opencode\/([0-9.]+)?/i },
  { family: 'cline', pattern: /^cline[\w-]*\/([0-9.]+)?/i },
  { family: 'continue', pattern: /^continue[\w-]*\/([0-9.]+)?/i },
  { family: 'aider', pattern: /^aider\/([0-9.]+)?/i },
  { family: 'qwen-code', pattern: /^qwen-?code\/([0-9.]+)?/i },
  { family: 'gemini-cli', pattern: /^gemini-?cli[\w-]*\/([0-9.]+)?/i },
  { family: 'zed', pattern: /^zed\/([0-9.]+)?/i },
  { family: 'n8n', pattern: /^n8n[\w-]*\/([0-9.]+)?/i },
  { family: 'litellm', pattern: /^litellm\/([0-9.]+)?/i },
  { family: 'langchain', pattern: /^langchain[\w-]*\/([0-9.]+)?/i },
  { family: 'llamaindex', pattern: /^llama-?index[\w-]*\/([0-9.]+)?/i },
  { family: 'ai-sdk', pattern: /^ai(?:-sdk[\w-]*)?\/([0-9.]+)?/i },
  { family: 'anthropic-sdk', pattern: /^(?:Async)?Anthropic\/\w+ ([0-9.]+)?/ },
  { family: 'openai-sdk', pattern: /^(?:Async)?(?:Azure)?OpenAI\/\w+ ([0-9.]+)?/ },
  { family: 'curl', pattern: /^curl\/([0-9.]+)?/ },
  { family: 'browser', pattern: /^Mozilla\// },
  { family: 'python', pattern: /^python/i },
  { family: 'node', pattern: /^(?:node|undici)\b/i },
]
/** A program that sends another User-Agent, or none. */
const OTHER: ClientProgram = { family: 'other', version: null }

/** Characters of a User-Agent that decide, and User-Agents that are remembered. */
const MAX = { characters: 200, known: 256 }

/** Most requests have one of few User-Agents. */
const known = new Map<string, ClientProgram>()

/** The program that sends a User-Agent. Empty: it sends none. */
export const programOf = (agent: string): ClientProgram => {
  const found = known.get(agent)
  if (found) return found
  const kind = matchedKind(agent.slice(0, MAX.characters))
  if (agent.length > MAX.characters) return kind
  if (known.size >= MAX.known) known.clear()
  known.set(agent, kind)
  return kind
}

const matchedKind = (agent: string): ClientProgram => {
  for (const { family, pattern } of FAMILIES) {
    const found = pattern.exec(agent)
    if (found) return { family, version: found[1]?.slice(0, 20) ?? null }
  }
  return OTHER
}
