/**
 * Texts in an error's raw body that make some clients retry. Bodies of final errors must not contain them, except in an
 * upstream's quoted message.
 */
export const RETRY_TRIGGERS =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i
