/* Sums of products of unsigned codes with weights, of which the four that an output has for four codes stand together.
   For four outputs at a time. */
KERNEL void multiply_unsigned(int32_t *restrict sums, const int8_t *weights, const uint8_t *codes, int terms,
                              int outputs)
{
#ifdef IN_FOURS
    int output = multiply_in_fours(sums, weights, codes, terms, outputs);
#else
    int output = 0;
#endif
    for (; output + 4 <= outputs; output += 4) {
        const int8_t *four = weights + 4 * output;
        int32_t first = 0, second = 0, third = 0, fourth = 0;
        for (int term = 0; term < terms; term += 4, four += 4 * outputs) {
            int32_t a = codes[term], b = codes[term + 1], c = codes[term + 2], d = codes[term + 3];
            first += four[0] * a + four[1] * b + four[2] * c + four[3] * d;
            second += four[4] * a + four[5] * b + four[6] * c + four[7] * d;
            third += four[8] * a + four[9] * b + four[10] * c + four[11] * d;
            fourth += four[12] * a + four[13] * b + four[14] * c + four[15] * d;
        }
        sums[output] = first;
        sums[output + 1] = second;
        sums[output + 2] = third;
        sums[output + 3] = fourth;
    }
    for (; output < outputs; output++) {
        const int8_t *one = weights + 4 * output;
        int32_t sum = 0;
        for (int term = 0; term < terms; term += 4, one += 4 * outputs)
            sum += one[0] * codes[term] + one[1] * codes[term + 1] + one[2] * codes[term + 2] +
                   one[3] * codes[term + 3];
        sums[output] = sum;
    }
}
