/**
 * What models cost more in a region than at the global endpoint of a vendor. LiteLLM's price table has the same factors
 * (`regional_endpoint_uplift_multiplier`, `regional_processing_uplift_multiplier_eu`, 2026-11-26). Names are in lower case, with
 * or without their publisher.
 */

/** The factor of all of them. */
export const REGIONAL = 1.1

/**
 * Claude from 4.5 on, at Bedrock and Vertex AI (platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, "Global vs
 * regional endpoints", 2026-11-26).
 */
export const CLAUDE_IN_REGION = /(?:^|[./])claude-(?:(?:opus|sonnet|haiku)-(?:4-[5-9]|[5-9])(?![0-9])|fable|mythos)/

/** Gemini from 3 on, at Vertex AI. */
export const GEMINI_IN_REGION = /(?:^|\/)gemini-(?:[3-9]|[1-9][0-9])(?![0-9])/

/** OpenAI's models since March 2026, processed in a region (developers.openai.com/api/docs/guides/your-data, "Data residency"). */
export const OPENAI_IN_REGION = /(?:^|[/:])gpt-(?:5\.[4-9]|[6-9]|realtime-2\.[1-9])(?![0-9])/
