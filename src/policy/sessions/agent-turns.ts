/** The turns of an agent since the last thing that its user said, from the history which it sends with each request. */
import type { ChatRequest, Message, Part } from '../../core/chat.ts'

/** A call of a tool with its result. The texts are those of the request; what is compared of them is made when it is needed. */
export type ToolUse = {
  readonly tool: string
  /** JSON text, or free text. */
  readonly input: string
  readonly result: string
  readonly isError: boolean
}

/** `said`: its text, if it called no tool. `size`: characters of the turn and its results. */
export type AgentTurn = { readonly uses: readonly ToolUse[]; readonly said: string; readonly size: number }

/** The newest turns that are read. */
export const MOST_TURNS = 40

/**
 * The newest turns, the oldest first. They begin after the last message of the user that says something new: one that repeats the
 * message before it is the nudge of a program, and what programs add in tags is not the user's.
 */
export const agentTurns = ({ messages }: Pick<ChatRequest, 'messages'>): readonly AgentTurn[] => {
  const turns: AgentTurn[] = []
  /** Results of the turn that is being read, by the ID of the call. */
  let results = new Map<string, Message>()
  let said: string | null = null
  for (let at = messages.length - 1; at >= 0 && turns.length < MOST_TURNS; at--) {
    const message = messages[at]
    if (!message) break
    if (message.role === 'tool') results.set(message.callId, message)
    else if (message.role === 'assistant') {
      turns.push(turnOf(message, results))
      results = new Map()
    } else if (message.role === 'user') {
      const text = ownText(message)
      if (text === '') continue
      // The newest message of the user begins a turn if the one before differs.
      if (said !== null && said !== text) break
      if (said === null && saidBefore(messages, at) !== text) break
      said = text
    }
  }
  return turns.reverse()
}

/** What the user said before; null: nothing. */
const saidBefore = (messages: readonly Message[], before: number): string | null => {
  for (let at = before - 1; at >= 0; at--) {
    const message = messages[at]
    const text = message?.role === 'user' ? ownText(message) : ''
    if (text !== '') return text
  }
  return null
}

/** Texts which clients add to messages of the user (Claude Code, opencode; Codex; Cline). */
const ADDED = ['system-reminder', 'environment_context', 'environment_details', 'user_instructions']

const isAdded = (text: string): boolean => {
  if (!text.trimStart().startsWith('<')) return false
  const whole = text.trim()
  return ADDED.some((tag) => whole.startsWith(`<${tag}>`) && whole.endsWith(`</${tag}>`))
}

/** The texts of the user. Anything else that a user sends, such as an image, is a text too: it is new. */
const ownText = ({ content }: Message): string => {
  let all = ''
  for (const part of content) {
    if (part.type === 'text') {
      if (!isAdded(part.text)) all += part.text
    } else all += `<${part.type}>`
  }
  return all
}

const turnOf = (message: Message, results: ReadonlyMap<string, Message>): AgentTurn => {
  const uses: ToolUse[] = []
  let [said, size] = ['', 0]
  for (const part of message.content) {
    if (part.type === 'text') {
      said += part.text
      size += part.text.length
    } else if (part.type === 'tool-call') {
      const found = results.get(part.id)
      const result = found ? resultText(found.content).replace(CODEX_ID, '') : ''
      const isError = found?.role === 'tool' && (found.isError ?? looksFailed(result))
      size += part.arguments.length + result.length
      uses.push({ tool: part.name, input: part.arguments, result, isError })
    }
  }
  return { uses, said: uses.length === 0 ? said.trim() : '', size }
}

/** The first line of results of `exec_command` in Codex 0.169.0: an ID that is another one each time. */
const CODEX_ID = /^Chunk ID: [0-9a-f]{1,32}\n/

const resultText = (content: readonly Part[]): string => {
  const [first] = content
  if (content.length === 1 && first?.type === 'text') return first.text
  let all = ''
  for (const part of content)
    if (part.type === 'text') all += part.text
    else if (part.type === 'image' || part.type === 'file') all += JSON.stringify(part.source)
  return all
}

/** Formats without a flag for errors: the beginning of the result, and the exit status that Codex and others write. */
const FAILED =
  /^\W{0,4}(?:error|fatal|failed|failure|exception|traceback|uncaught|command failed|invalid|cannot|could not|unable|no such|permission denied|access denied)\b|\berror:|exit(?:ed with)?[ _](?:code|status)\W{1,4}[1-9]|command not found|no such file/i
const HEAD = 300

const looksFailed = (result: string): boolean => FAILED.test(result.length > HEAD ? result.slice(0, HEAD) : result)
