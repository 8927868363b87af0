/* On processors with vectors every layer has copies of its kernels, in which its sizes are constants; on others all
   layers share them, which takes less flash. To choose yourself: -DMODEL_COPIES=1 or 0. */
#ifndef MODEL_COPIES
#if defined(__OPTIMIZE__) && (defined(__AVX2__) || defined(__aarch64__))
#define MODEL_COPIES 1
#else
#define MODEL_COPIES 0
#endif
#endif
#if MODEL_COPIES && defined(__GNUC__)
#define KERNEL static inline __attribute__((always_inline))
#else
#define KERNEL static
#endif
/* In front of a loop that is to become an operation on vectors, before a compiler unrolls it. */
#if defined(__GNUC__) && !defined(__clang__)
#define IN_VECTORS _Pragma("GCC unroll 1")
#else
#define IN_VECTORS
#endif

/* Whether ones are counted in vectors, so fast that it is not worth to look for words without any. */
#ifdef __AVX512VPOPCNTDQ__
#define COUNTS_FAST 1
#else
#define COUNTS_FAST 0
#endif

/* Numbers of height x width pixels, each with its channels. Where planes is not 0 they are stored as bit planes: a
   pixel is `planes` rows of words, and bit c % 32 of word c / 32 in row p is bit p of channel c. */
typedef struct {
    void *data;
    void *const *outside; /* where the argument of model_run stands that it is, if it is one */
    int height, width, channels;
    int pixel_step, channel_step; /* numbers from one pixel, or channel, to the next */
    int planes;
    int is_signed;
} tensor;

/* The constants of an operation on a pixel's row of numbers, one a channel. Real numbers stand in a row as
   their bits. */
typedef struct {
    int32_t low, high;         /* the codes, or limits */
    int count;                 /* thresholds of a channel */
    int32_t divisor;           /* of the sums, before they are real numbers */
    const int32_t *thresholds; /* count rows of one a channel, or for a search count for every channel */
    const int8_t *directions;  /* 1 for channels whose codes rise, -1 for those whose codes fall; NULL if all rise */
    const int32_t *slopes;
    const int64_t *starts;
    const uint8_t *shifts;
    const int32_t *short_starts; /* of lines that 32 bits hold, which share a shift */
    int shift;
    const float *scales;
    const float *biases;
    float factor, step, least, most;
} row_operation;

/* A convolution. A linear layer is one of 1 x 1 pixels. */
typedef struct {
    int groups;
    int kernel_height, kernel_width, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
    int weight_bits;         /* of an index; a weight is slope x index + start */
    int row_words;           /* of an output channel: of each plane, or of all packed indices, with zeros behind */
    int32_t slope, start;
    const uint32_t *indices; /* planes or packed */
    const int8_t *bytes;     /* weights of 8 bits as they are */
    int row_bytes;           /* of an output channel, with zeros behind its weights */
    const float *reals;
    const float *biases;
} convolution;

/* What a convolution sees of an image, which begins at a row and a column. */
typedef struct {
    int top, left;
    int is_inside; /* nothing of it is padding */
} window;

/* Windows of a pooling. */
typedef struct {
    int height, width, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
    int counts_padding; /* whether averages count it */
} windows;
