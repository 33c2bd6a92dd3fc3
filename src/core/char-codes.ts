/** UTF-16 codes of the characters that structure JSON. */
export const LINE_FEED = 10
export const QUOTE = 34
export const COMMA = 44
export const MINUS = 45
export const COLON = 58
export const OPEN_BRACKET = 91
export const BACKSLASH = 92
export const CLOSE_BRACKET = 93
export const OPEN_BRACE = 123
export const CLOSE_BRACE = 125

export const isOpening = (code: number): boolean => code === OPEN_BRACE || code === OPEN_BRACKET
export const isClosing = (code: number): boolean => code === CLOSE_BRACE || code === CLOSE_BRACKET
export const isDigit = (code: number): boolean => code >= 48 && code <= 57
