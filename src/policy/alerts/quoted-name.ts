/**
 * Names in the messages of alerts. Clients choose some of them, and a receiver may read its markup in them: mentions, links,
 * a second line that looks like another alert.
 */

/** Characters of a name in a message. */
const MAX_NAME = 64
/** Characters of a message. */
const MAX_MESSAGE = 1_000

/** Line ends, other control characters, and characters that are invisible or change the direction of text. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu

/** A name in double quotes, which it does not contain. One line of at most 64 characters. */
export const quotedName = (name: string): string => {
  // A cut before the replacement, too: a name has any length.
  const line = name
    .slice(0, 2 * MAX_NAME)
    .replace(UNPRINTABLE, ' ')
    .replace(/["“”„`´]/g, "'")
    .trim()
  const cut = line.length > MAX_NAME || name.length > 2 * MAX_NAME
  return `"${cut ? `${line.slice(0, MAX_NAME - 1).replace(/[\ud800-\udbff]$/, '')}…` : line}"`
}

/** A message of one line and at most 1,000 characters. */
export const boundedMessage = (message: string): string => {
  const line = message.slice(0, MAX_MESSAGE + 1).replace(UNPRINTABLE, ' ')
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE - 1).replace(/[\ud800-\udbff]$/, '')}…` : line
}

/**
 * A message for receivers with Slack's markup (api.slack.com, "Formatting text for app surfaces", read 2026-11-26): `&`, `<`
 * and `>` are escaped, and it is one line. Quoted names become code, in which Slack and compatible receivers recognise neither addresses nor
 * mentions nor emphasis.
 */
export const slackText = (message: string): string =>
  boundedMessage(message)
    .replaceAll('`', "'")
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(/"([^"]{1,400})"/g, '`$1`')
