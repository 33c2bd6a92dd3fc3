/** What each vendor accepts in requests, as data. `src/protocols/shared/accepts.ts` applies it. */
import type { Json } from './json.ts'

/** A capability that a request may need. */
export type Ability = 'tools' | 'images'

/**
 * What a vendor accepts in a request body. Applied to bodies that pass through and to translated ones. A removed member
 * is reported as dropped, unless its value equals the default. Each table cites an issue or a page, with its date.
 */
export type Accepts = {
  /** Optional members that it accepts: a translated request contains no other `OptionalMember`. */
  readonly takes?: readonly OptionalMember[]
  /** Image parts hold images only; a PDF in one is refused and has to be a file part. Other vendors accept it. */
  readonly imagesOnly?: true
  /** Members that it rejects, each with the value that is equivalent to its absence. */
  readonly refuses?: { readonly [member: string]: Json }
  /** For a closed message schema: the allowed members by role. */
  readonly messages?: { readonly [role: string]: readonly string[] }
  /**
   * Members of an assistant message that carry the reasoning of earlier turns; the first one is written. Empty: not
   * accepted. Absent: unknown, so the client's own members pass and none is written.
   */
  readonly reasoning?: readonly ReasoningMember[]
  /** Limits of texts and lists. */
  readonly limits?: MemberLimits
  /** Refuses parameters of a function that are no object schema with `properties`. */
  readonly objectParameters?: true
}

/**
 * Limits by the path of a member: `user`, `metadata.user_id`. `[]` stands for each entry of a list:
 * `messages[].tool_calls[].id`.
 */
export type MemberLimits = { readonly [path: string]: TextLimit | ListLimit }

/** A limit of a text that identifies something. Another text is replaced by a digest of it, the same for the same text. */
export type TextLimit = {
  /** In UTF-16 code units, as the minimum. */
  readonly maxLength: number
  readonly minLength?: number
  /** Matches valid texts. It has to accept lower-case letters, digits and `_`. */
  readonly pattern?: RegExp
}

/** A limit of a list. Further entries are removed. */
export type ListLimit = { readonly maxItems: number }

/** Members of chat completions that OpenAI defined and many vendors reject. */
export type OptionalMember = 'store' | 'metadata' | 'prompt_cache_key' | 'service_tier' | 'verbosity'

export type ReasoningMember = 'reasoning_content' | 'reasoning' | 'reasoning_details'
