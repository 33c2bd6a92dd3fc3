import { RECORDINGS, sweep } from './sweep.ts'

sweep(RECORDINGS, 'gemini', 'bedrock-converse', 'cohere', 'mistral', 'ollama')
