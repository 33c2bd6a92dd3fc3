/**
 * The price of Claude in a region of Bedrock or Vertex AI: from 4.5 on 1.1 times the price of the global endpoint
 * (platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, "Global vs regional endpoints", 2026-11-26).
 */
export const REGIONAL = 1.1

/** Names of these models, also with Bedrock's publisher. */
export const HAS_REGIONAL_PRICE =
  /^(?:anthropic\.)?claude-(?:(?:opus|sonnet|haiku)-(?:4-[5-9]|[5-9])(?![0-9])|fable|mythos)/
