/* Sums of products of signed codes with the weights of each output, for four outputs at a time. */
KERNEL void multiply_signed(int32_t *restrict sums, const int8_t *restrict weights, const int8_t *restrict codes,
                            int terms, int outputs)
{
    int output = 0;
    for (; output + 4 <= outputs; output += 4, weights += 4 * terms) {
        const int8_t *second = weights + terms, *third = second + terms, *fourth = third + terms;
        int32_t sum = 0, second_sum = 0, third_sum = 0, fourth_sum = 0;
        for (int term = 0; term < terms; term++) {
            sum += weights[term] * codes[term];
            second_sum += second[term] * codes[term];
            third_sum += third[term] * codes[term];
            fourth_sum += fourth[term] * codes[term];
        }
        sums[output] = sum;
        sums[output + 1] = second_sum;
        sums[output + 2] = third_sum;
        sums[output + 3] = fourth_sum;
    }
    for (; output < outputs; output++, weights += terms) {
        int32_t sum = 0;
        for (int term = 0; term < terms; term++)
            sum += weights[term] * codes[term];
        sums[output] = sum;
    }
}
