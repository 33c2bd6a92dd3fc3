import { hash } from 'node:crypto'

/** A digest that stands for a text of any length. */
export const fingerprint = (value: string): string => hash('sha256', value, 'base64')
