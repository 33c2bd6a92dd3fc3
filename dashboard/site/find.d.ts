import type { SectionText } from './section-texts.ts'

/** The telling words of a question, in lower case. */
export function wordsOf(question: string): string[]

/** The sections that have words of the question, the best first: rare words count more, and those in headings. */
export function search(sections: readonly SectionText[], question: string): SectionText[]

/** The part of a text around the first of the question's words. */
export function excerptOf(text: string, question: string): string
