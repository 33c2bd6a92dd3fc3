/** What vendors take in requests, as data: `src/protocols/shared/accepts.ts` applies it. */
import type { Json } from './json.ts'

/** What a request may need of a vendor. */
export type Ability = 'tools' | 'images'

/**
 * What a vendor takes in a request body. Applied to the client's own bodies and to translated ones. What is removed is named
 * as dropped, unless it says nothing. Each table cites a thread or a page, and its date.
 */
export type Accepts = {
  /** Optional members it is known to take: when a request is translated, others of their kind are not written. */
  readonly takes?: readonly OptionalMember[]
  /** Members it refuses, each with the value that means the same as its absence. */
  readonly refuses?: { readonly [member: string]: Json }
  /** Where the schema of messages is closed: the members of a message by its role. */
  readonly messages?: { readonly [role: string]: readonly string[] }
  /**
   * Members of an assistant message in which it takes the reasoning of earlier turns; the first is written. Empty: it takes
   * none. Absent: not known; the client's own pass, and none is written.
   */
  readonly reasoning?: readonly ReasoningMember[]
}

/** Members of chat completions that OpenAI defined and that many vendors refuse. */
export type OptionalMember = 'store' | 'metadata' | 'prompt_cache_key' | 'service_tier' | 'verbosity'

export type ReasoningMember = 'reasoning_content' | 'reasoning' | 'reasoning_details'
